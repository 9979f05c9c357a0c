// The files that a link reads: certificates and keys, and tokens.
//
// Certificate files are checked when this process starts, so that a problem is reported here in
// plain words instead of by every peer that rejects the connection.
//
// Threads: thread-safe (pure functions).
// Errors:  kInvalidArgument if a file is not PEM or holds something else, kFailedPrecondition if no
//          peer would accept it. Messages name the file and never show a key.
#ifndef DING_WORKER_INTERACTION_GRPC_LINK_FILES_H_
#define DING_WORKER_INTERACTION_GRPC_LINK_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// Checks that the certificate in `cert` belongs to `key`, is valid at `now` and is made for `use`.
// It is the first certificate of the file; the certificates after it lead to the authority.
absl::Status CheckOwnCertificate(const PemFile& cert, const PemFile& key, CertificateUse use,
                                 absl::Time now);

// Checks that a peer that trusts only the authorities in `ca` would accept `cert`.
absl::Status CheckSignedBy(const PemFile& ca, const PemFile& cert, CertificateUse use,
                           absl::Time now);

// The tokens by which peers join as a collector, a learner or an operator.
//
// A token file has one line for each token, with its role first. A role may have several tokens, so
// that a new token can be distributed before the old one is removed; a caller shows the first token
// of its role.
//
//     # of run 7
//     collector 6f1e...
//     learner   b07c...
//     operator  93aa...

// Shorter tokens could be guessed.
inline constexpr size_t kMinTokenBytes = 32;
inline constexpr size_t kMaxTokenBytes = 512;
inline constexpr size_t kMaxTokens = 256;

struct LinkToken {
  std::string role;  // "collector", "learner" or "operator"
  std::string token;
};

// Parses the text of a token file, and returns at least one token. The message of kInvalidArgument
// names `file` and the line, and never shows a token.
absl::StatusOr<std::vector<LinkToken>> ParseLinkTokens(absl::string_view text,
                                                       absl::string_view file);

// Returns the index of `token` in `tokens`, or -1. Compares in constant time for tokens of the same
// length.
int IndexOfToken(const std::vector<LinkToken>& tokens, absl::string_view token);
// Returns the role of `token`, or "" if it is not among `tokens`.
absl::string_view RoleOfToken(const std::vector<LinkToken>& tokens, absl::string_view token);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_LINK_FILES_H_
