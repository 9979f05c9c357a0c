// Checks one's own certificate files at the start, so that what is wrong with them is said here, in
// a sentence, and not by every peer that turns us away.
//
// Threads: thread-safe (pure functions).
// Errors:  kInvalidArgument (no PEM, or of something else) or kFailedPrecondition (nobody would
//          accept it); name the file, never show a key.
#ifndef DING_WORKER_INTERACTION_GRPC_CERTIFICATES_H_
#define DING_WORKER_INTERACTION_GRPC_CERTIFICATES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ding {

// A file and its text.
struct PemFile {
  std::string path;
  std::string text;
};

enum class CertificateUse { kListener, kCaller };

// One or more certificates of authorities, of which one is valid at `now`.
absl::Status CheckAuthorities(const PemFile& ca, absl::Time now);

// `cert` (the first of the file; those behind it lead to the authority) belongs to `key`, is valid
// at `now`, and may be used as said.
absl::Status CheckOwnCertificate(const PemFile& cert, const PemFile& key, CertificateUse use,
                                 absl::Time now);

// A peer that knows no more than `ca` would accept `cert`.
absl::Status CheckSignedBy(const PemFile& ca, const PemFile& cert, CertificateUse use,
                           absl::Time now);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_CERTIFICATES_H_
