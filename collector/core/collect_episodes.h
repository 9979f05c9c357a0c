// A loop for collectors of episodes: begins and finishes exactly the target number, and makes training data
// of them. EpisodeSerialCollector and BattleEpisodeSerialCollector are this loop.
//
//     ready envs ──► in an episode of this collect: acts
//                └─► idle: begins one while fewer than the target have begun; else waits
//
// Every episode that begins is finished and none is cut, so statistics over them are unbiased. A manager
// may report only some envs as ready and may answer later. Envs that are in the middle of an episode when a
// collect begins are reset first.
//
// Ownership: the core must outlive it.   Threads: thread-compatible.
// Errors:    as ISerialCollector::Collect(); errors name the collector. After an error the episodes of that
//            collect are dropped, including finished ones: short episodes finish first and would be a biased
//            sample.
//
// Example:
//   EpisodeCollection episodes({/*get_train_sample=*/true}, core.get());
//   DING_ASSIGN_OR_RETURN(Collected collected, episodes.Collect({0}, options));
//   return std::move(collected.players[0]);
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECT_EPISODES_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECT_EPISODES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collected.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

class EpisodeCollection {
 public:
  struct Options {
    // Whether to pass the episodes through GetTrainSample() of the policies.
    bool get_train_sample = false;
    // If set, changes the rewards of player 0 in each finished episode.
    RewardShaping reward_shaping;
  };

  // `core` must have whole_episodes.
  EpisodeCollection(Options options, CollectCore* core)
      : options_(std::move(options)), core_(core) {}

  // Collects episodes, one segment each, of the players `wanted` (ascending). The default of
  // CollectOptions::target is n_episode of the first player's policy; it must be at least one per env.
  absl::StatusOr<Collected> Collect(absl::Span<const int> wanted, const CollectOptions& options);

  // Save and load the core, and which envs are in the middle of an episode.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  absl::StatusOr<int64_t> Target(const CollectOptions& options) const;
  absl::StatusOr<std::vector<SegmentBatch>> GatherAndTake(absl::Span<const int> wanted,
                                                          int64_t target,
                                                          const CollectOptions& options);
  absl::Status Gather(int64_t target, const CollectOptions& options);
  // Returns the envs within an episode, and idle ones while episodes are left to begin.
  ActingEnvs Choose(const ReadyObs& ready, int64_t target);
  absl::Status NoteFinished(const Timesteps& timesteps);

  const Options options_;
  CollectCore* const core_;
  // State of the current collect.
  std::vector<bool> active_;
  int64_t started_ = 0;
  int64_t finished_ = 0;
  std::vector<int> acting_ids_;       // scratch of Choose()
  std::vector<int64_t> acting_rows_;  // scratch of Choose()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_EPISODES_H_
