// Checks the certificate files of this process at startup, so that a problem is reported here in
// plain words instead of by every peer that rejects the connection.
//
// Threads: thread-safe (pure functions).
// Errors:  kInvalidArgument if a file is not PEM or holds something else, kFailedPrecondition if no
//          peer would accept it. Messages name the file and never show a key.
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

// Checks that `ca` holds one or more certificates of authorities, at least one of which is valid at
// `now`.
absl::Status CheckAuthorities(const PemFile& ca, absl::Time now);

// Checks that the certificate in `cert` belongs to `key`, is valid at `now` and is made for `use`. It
// is the first certificate of the file; those that follow lead to the authority.
absl::Status CheckOwnCertificate(const PemFile& cert, const PemFile& key, CertificateUse use,
                                 absl::Time now);

// Checks that a peer that trusts only the authorities in `ca` would accept `cert`.
absl::Status CheckSignedBy(const PemFile& ca, const PemFile& cert, CertificateUse use,
                           absl::Time now);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_CERTIFICATES_H_
