// What a checkpoint's manifest says about its policy, so that a program can make that policy again
// without the env and the config of its run.
//
//   policy_config        a PolicyConfig in the protobuf text format
//   observation, action  the spaces of a player, as JSON (data/spec_json.h); left out if they are
//                        longer than kMaxSpaceBytes
//   actor                the network that acts, as JSON (policy/actor/actor_description.h), for
//                        programs without protobuf
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_SAVED_POLICY_POLICY_DESCRIPTION_H_
#define DING_WORKER_WORKER_SAVED_POLICY_POLICY_DESCRIPTION_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/env/env.h"
#include "ding_worker/policy/policy.pb.h"

namespace ding {

// A manifest has at most 2^20 bytes. Only bounds that differ from element to element need so many.
inline constexpr size_t kMaxSpaceBytes = size_t{1} << 18;

struct PolicyDescription {
  PolicyConfig config;
  EnvSpec player;  // as SpacesOf() returns it
};

// Adds the fields. `player` is the spec of an env for one player; for a game it is its
// PlayerSpec().
void DescribePolicy(const PolicyConfig& config, const EnvSpec& player, CheckpointInfo* info);

// OK if this program has a policy of the checkpoint's type.
//   kNotFound  names the type and those that are linked, and says what to do
absl::Status CheckPolicyIsLinked(const CheckpointInfo& info);

// Returns the spaces, and the name of the env; observation and action are null if the manifest does
// not hold them. kInvalidArgument if one cannot be read.
absl::StatusOr<EnvSpec> SpacesOf(const CheckpointInfo& info);

// Returns all that DescribePolicy() has added.
//   kFailedPrecondition  an earlier version wrote the checkpoint: it has no such fields
//   kNotFound            as CheckPolicyIsLinked()
//   kInvalidArgument     a field cannot be read, for example because a message in it is not linked
absl::StatusOr<PolicyDescription> DescriptionOf(const CheckpointInfo& info);

// The number of env steps or train iterations that the run had made ("env_step", "train_iter"); 0
// if it is not known.
int64_t CheckpointProgress(const CheckpointInfo& info, absl::string_view name);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SAVED_POLICY_POLICY_DESCRIPTION_H_
