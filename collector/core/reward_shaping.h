// Functions that change the rewards of a finished episode before it is returned: hindsight rewards,
// bonuses that depend on its end. Logged returns are still the env's returns.
//
// Such a function runs in the collector's process and is registered by name. It is not a method of
// Env, because an env in another process has no access to the collected rows.
//
// Threads: called on the thread of the collector.
//
// Example:
//   absl::Status OnlyTheLastCounts(int env_id, const ColumnsView& rows,
//                                  absl::Span<float> rewards) {
//     std::fill(rewards.begin(), rewards.end() - 1, 0.0f);
//     return absl::OkStatus();
//   }
//   DING_REGISTER(RewardShapingRegistry(), "only_the_last", OnlyTheLastCounts,
//                 "sets all rewards but the last of an episode to 0");
#ifndef DING_WORKER_COLLECTOR_CORE_REWARD_SHAPING_H_
#define DING_WORKER_COLLECTOR_CORE_REWARD_SHAPING_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/columns.h"

namespace ding {

// Changes `rewards`, the rewards of the `rows` of an episode, oldest first: [T], or [T, R] if the
// env's rewards have R components, which it keeps (env.reward_weights make one reward of them). An
// error or exception fails the collect.
using RewardShaping =
    std::function<absl::Status(int env_id, const ColumnsView& rows, absl::Span<float> rewards)>;

// The functions by the name in the config (reward_shaping in the params of "sample" and "episode").
Registry<RewardShaping>& RewardShapingRegistry();

// Returns the function of this name.
//   kNotFound  it is not linked; lists the linked functions
//   kInternal  it is empty
absl::StatusOr<RewardShaping> FindRewardShaping(absl::string_view name);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_REWARD_SHAPING_H_
