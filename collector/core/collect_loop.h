// The loop of our serial collectors: steps envs until there are enough samples or episodes of N players, and makes
// training data of them. The collectors of serial/serial_collectors.h are this loop.
//
// Samples: steps all ready envs until one of the wanted players has enough. With CollectAttributes::unroll_len 1
// a sample is a row. With T > 1 it is T consecutive rows of one episode of a player, counted from the first row of
// the episode; the rows that are left at the end of an episode are one sample, too. The sample of a running episode
// counts when its last row is there:
//
//     T = 3    collect of 2 samples ─────────────┐   collect of 2 samples ─┐
//     env 0    a0 a1 a2 | a3 a4 (a ends) | b0 b1 │ b2 | b3 b4 b5 |         │
//     samples         1                2         │  1           2
//
// All rows are returned, also those of unfinished samples. The policy cuts samples in GetTrainSample(),
// or a buffer draws them along the links of the rows. The unfinished sample of an off-policy policy goes
// on in the next collect. An on-policy policy cuts its rows at the end of each collect, so the next one
// begins new samples; its rows that wait for the end of their episode are dropped then.
//
// Episodes (Options::by_episode): begins and finishes exactly the target number.
//
//     ready envs ──► in an episode of this collect: acts
//                └─► idle: begins one while fewer than the target have begun; else waits
//
// Every episode that begins is finished and none is cut, so statistics over them are unbiased. A manager
// may report only some envs as ready and may answer later. Envs that are in the middle of an episode when a
// collect begins are reset first.
//
// Ownership: the core must outlive it.   Threads: thread-compatible.
// Errors:    as ISerialCollector::Collect(); errors name the collector. After an error the rows made so far stay
//            in the core, and the next Collect() returns them. By episode, all episodes of that collect are dropped,
//            including finished ones: short episodes finish first and would be a biased sample.
//
// Example:
//   CollectLoop loop({}, core.get());
//   DING_ASSIGN_OR_RETURN(Collected collected, loop.Collect(options));
//   return std::move(collected.players[0]);
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECT_LOOP_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECT_LOOP_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collect_statistics.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

// The result of one collect.
struct Collected {
  std::vector<SegmentBatch> players;       // empty for players that are not collected
  std::vector<CollectedEpisode> episodes;  // finished episodes, env by env
};

class CollectLoop {
 public:
  struct Options {
    // The players to collect, ascending. The rows of the others are dropped.
    std::vector<int> players = {0};
    // Whether to collect episodes, one segment each. The core must have whole_episodes.
    bool by_episode = false;
    // Whether to pass the data through GetTrainSample() of the policies.
    bool get_train_sample = true;
    // If set, changes the rewards of player 0 in each finished episode. Only by episode.
    RewardShaping reward_shaping;
  };

  CollectLoop(Options options, CollectCore* core) : options_(std::move(options)), core_(core) {}

  // Collects CollectOptions::target samples or episodes. The default is n_sample or n_episode of the first player's
  // policy. The least number of episodes is one per env.
  absl::StatusOr<Collected> Collect(const CollectOptions& options);

 private:
  absl::StatusOr<int64_t> Prepare(const CollectOptions& options);
  absl::StatusOr<int64_t> Target(const CollectOptions& options);
  absl::StatusOr<std::vector<SegmentBatch>> StepAndTake(int64_t target,
                                                        const CollectOptions& options);
  absl::Status StepUntilSamples(int64_t target, const CollectOptions& options);
  // Returns the number of samples of the wanted player that has the most.
  int64_t ReadySamples() const;
  // Whether a sample of every player is a row.
  bool SamplesAreRows() const;

  absl::Status StepUntilEpisodes(int64_t target, const CollectOptions& options);
  // Returns the envs within an episode, and idle ones while episodes are left to begin.
  ActingEnvs Choose(const ReadyObs& ready, int64_t target);
  absl::Status NoteFinished(const Timesteps& timesteps);

  const Options options_;
  CollectCore* const core_;
  int64_t most_rows_ = 0;             // the rows of a player in the last collect, at most
  std::set<int64_t> warned_targets_;  // targets not a multiple of the number of envs
  // The episodes of the current collect.
  std::vector<bool> active_;  // per env, whether it is in one of them
  int64_t started_ = 0;
  int64_t finished_ = 0;
  std::vector<int> acting_ids_;       // scratch of Choose()
  std::vector<int64_t> acting_rows_;  // scratch of Choose()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_LOOP_H_
