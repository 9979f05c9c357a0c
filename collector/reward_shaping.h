// Changes the rewards of a finished episode before it is handed over: hindsight rewards, bonuses
// that depend on how it ended. The returns that are logged stay the env's own.
//
// It is a function in the collector's process, found by name, and no method of Env: an env that
// lives in another process has no access to rows that were collected here.
//
// Threads: called by the thread that collects.
//
// Example:
//   absl::Status OnlyTheLastCounts(int env_id, const ColumnsView& rows,
//                                  absl::Span<float> rewards) {
//     std::fill(rewards.begin(), rewards.end() - 1, 0.0f);
//     return absl::OkStatus();
//   }
//   DING_REGISTER(RewardShapingRegistry(), "only_the_last", OnlyTheLastCounts);
#ifndef DING_WORKER_COLLECTOR_REWARD_SHAPING_H_
#define DING_WORKER_COLLECTOR_REWARD_SHAPING_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/columns.h"

namespace ding {

// `rows` are those of the episode, oldest first, as a collector hands them over; `rewards` are
// their rewards, to be changed. What it returns, or throws, fails the collect.
using RewardShaping =
    std::function<absl::Status(int env_id, const ColumnsView& rows, absl::Span<float> rewards)>;

// By the name in the config (EpisodeCollectorParams::reward_shaping).
Registry<RewardShaping>& RewardShapingRegistry();

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_REWARD_SHAPING_H_
