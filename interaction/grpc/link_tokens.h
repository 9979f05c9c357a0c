// Tokens: what a peer shows to be let in as a collector, a learner or an operator.
//
// A token file has a line for each, with the role first. A role may have several, so that a new one
// can be handed out before the old one goes; what connects shows the first of its role.
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

// Shorter ones can be guessed.
inline constexpr size_t kMinTokenBytes = 32;
inline constexpr size_t kMaxTokenBytes = 512;
inline constexpr size_t kMaxTokens = 256;

struct LinkToken {
  std::string role;  // "collector", "learner" or "operator"
  std::string token;
};

// The tokens of a file's text, at least one. kInvalidArgument names `file` and the line, and never
// a token.
absl::StatusOr<std::vector<LinkToken>> ParseLinkTokens(absl::string_view text,
                                                       absl::string_view file);

// The role that `token` stands for; empty: none. Takes as long for a token that is nearly right as
// for any other.
absl::string_view RoleOfToken(const std::vector<LinkToken>& tokens, absl::string_view token);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_LINK_TOKENS_H_
