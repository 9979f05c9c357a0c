// Starts and finishes exactly so many episodes: what the collectors of episodes share.
//
//     ready envs ──► in an episode of this collect: acts
//                └─► idle: begins one, while fewer than the target have begun; else rests
//
// No episode is begun that is not finished, and none is cut: statistics over them are unbiased. A
// manager may show only some envs as ready, or answer later than it was asked.
//
// After a failure the episodes of that collect are dropped, finished ones too (short episodes
// finish first, and alone would be a biased choice), and the next collect resets the envs that were in the
// middle of one.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_COLLECT_EPISODES_H_
#define DING_WORKER_COLLECTOR_COLLECT_EPISODES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/collect_core.h"
#include "ding_worker/collector/collect_rows.h"
#include "ding_worker/collector/reward_shaping.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/traj_buffer.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

class EpisodeCollection {
 public:
  struct Options {
    // Return what the policies' GetTrainSample() makes of the episodes; else the episodes.
    bool get_train_sample = false;
    // Changes the rewards of player 0 in each finished episode; empty: leaves them.
    RewardShaping reward_shaping;
  };

  // Works with `core`, made with whole_episodes, which must outlive it.
  EpisodeCollection(Options options, CollectCore* core)
      : options_(std::move(options)), core_(core) {}

  // The target is the first player's n_episode if the options do not say, and at least one per env.
  // One segment per episode. Errors as of ISerialCollector::Collect(). `wanted`: the players whose
  // data are, ascending.
  absl::StatusOr<Collected> Collect(absl::Span<const int> wanted, const CollectOptions& options);

  // All envs are at the beginning of an episode; or, `in_the_middle`, may be anywhere in one.
  void NoteAllEnvs(bool in_the_middle);
  // These are at the beginning of one.
  void NoteFresh(absl::Span<const int> env_ids);

  absl::Status SaveState(StateWriter* writer) const;
  // What SaveState() wrote, for set_unfinished().
  absl::StatusOr<std::vector<int>> ReadState(StateReader* reader) const;
  void set_unfinished(std::vector<int> env_ids) { unfinished_ = std::move(env_ids); }

 private:
  absl::StatusOr<int64_t> Target(const CollectOptions& options) const;
  absl::StatusOr<std::vector<SegmentBatch>> GatherAndTake(absl::Span<const int> wanted,
                                                          int64_t target,
                                                          const CollectOptions& options);
  absl::Status RestartUnfinished();
  absl::Status Gather(int64_t target, const CollectOptions& options);
  // Those in an episode, and idle ones while there are episodes to begin.
  ActingEnvs Choose(const ReadyObs& ready, int64_t target);
  absl::Status NoteFinished(const Timesteps& timesteps);
  absl::Status Abandon();

  const Options options_;
  CollectCore* const core_;
  std::vector<int> unfinished_;  // envs in the middle of an episode, to be reset before a collect
  // Of the collect under way.
  std::vector<bool> active_;
  int64_t started_ = 0;
  int64_t finished_ = 0;
  std::vector<int> acting_ids_;       // scratch of Choose()
  std::vector<int64_t> acting_rows_;  // scratch of Choose()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COLLECT_EPISODES_H_
