// The common part of the collectors of episodes: begins and finishes exactly the target number.
//
//     ready envs ──► in an episode of this collect: acts
//                └─► idle: begins one while fewer than the target have begun; else waits
//
// Every episode that begins is finished and none is cut, so statistics over them are unbiased. A manager
// may report only some envs as ready and may answer later.
//
// After a failure the episodes of that collect are dropped, including finished ones (short episodes
// finish first and would be a biased sample), and the next collect resets the envs that were within an
// episode.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECT_EPISODES_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECT_EPISODES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collect_rows.h"
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

  // Uses `core`, which must have whole_episodes set and outlive this object.
  EpisodeCollection(Options options, CollectCore* core)
      : options_(std::move(options)), core_(core) {}

  // Collects episodes, one segment each, of the players `wanted` (ascending). The default target is
  // n_episode of the first player's policy; it must be at least one per env. Errors as for
  // ISerialCollector::Collect().
  absl::StatusOr<Collected> Collect(absl::Span<const int> wanted, const CollectOptions& options);

  // Notes that all envs are at the beginning of an episode, or, if `in_the_middle`, may be within one.
  void NoteAllEnvs(bool in_the_middle);
  // Notes that these envs are at the beginning of an episode.
  void NoteFresh(absl::Span<const int> env_ids);

  absl::Status SaveState(StateWriter* writer) const;
  // Reads the state of SaveState(), for set_unfinished().
  absl::StatusOr<std::vector<int>> ReadState(StateReader* reader) const;
  void set_unfinished(std::vector<int> env_ids) { unfinished_ = std::move(env_ids); }

 private:
  absl::StatusOr<int64_t> Target(const CollectOptions& options) const;
  absl::StatusOr<std::vector<SegmentBatch>> GatherAndTake(absl::Span<const int> wanted,
                                                          int64_t target,
                                                          const CollectOptions& options);
  absl::Status RestartUnfinished();
  absl::Status Gather(int64_t target, const CollectOptions& options);
  // Returns the envs within an episode, and idle ones while episodes are left to begin.
  ActingEnvs Choose(const ReadyObs& ready, int64_t target);
  absl::Status NoteFinished(const Timesteps& timesteps);
  absl::Status Abandon();

  const Options options_;
  CollectCore* const core_;
  std::vector<int> unfinished_;  // envs within an episode, to reset before the next collect
  // State of the current collect.
  std::vector<bool> active_;
  int64_t started_ = 0;
  int64_t finished_ = 0;
  std::vector<int> acting_ids_;       // scratch of Choose()
  std::vector<int64_t> acting_rows_;  // scratch of Choose()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_EPISODES_H_
