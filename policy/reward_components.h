// Refuses rewards of several components ([R] float32) for policies that do not take them.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_POLICY_REWARD_COMPONENTS_H_
#define DING_WORKER_POLICY_REWARD_COMPONENTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/spec.h"

namespace ding {

// OK if the reward of the env is one number, or the policy takes components
// (CollectAttributes::reward_components, LearnAttributes::reward_components). Else kInvalidArgument
// names policy, env and shape, and says what to do.
absl::Status CheckTakesReward(absl::string_view policy, bool takes_components,
                              absl::string_view env, const Shape& reward_shape);

}  // namespace ding

#endif  // DING_WORKER_POLICY_REWARD_COMPONENTS_H_
