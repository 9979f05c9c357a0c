// The tokens that let peers in as a collector, a learner or an operator.
//
// A token file has one line for each token, with its role first. A role may have several tokens, so
// that a new one can be handed out before the old one is removed; a caller shows the first token of its
// role.
//
//     # of run 7
//     collector 6f1e...
//     learner   b07c...
//     operator  93aa...
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_GRPC_LINK_TOKENS_H_
#define DING_WORKER_INTERACTION_GRPC_LINK_TOKENS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ding {

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

// Returns the role of `token`, or "" if it is not among `tokens`. The comparison takes as long for a
// token that is nearly right as for any other of its length.
absl::string_view RoleOfToken(const std::vector<LinkToken>& tokens, absl::string_view token);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_LINK_TOKENS_H_
