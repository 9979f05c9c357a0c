// The serial collectors: a number of samples, or of whole episodes, in envs for one player or in
// games.
//
//                   samples                       episodes
//     one player    SampleSerialCollector         EpisodeSerialCollector
//     games         BattleSampleSerialCollector   BattleEpisodeSerialCollector
//
// All are a CollectCore with a CollectLoop, which says when there are enough samples or episodes:
//
//     env manager ──ready_obs──► TrajBuffer's next rows ──► policy writes its outputs into them
//          ▲                           │                                    │
//          └────────── Step(actions: a view of those rows) ◄────────────────┘
//
// Samples, for off-policy algorithms and on-policy ones like PPO: every row is returned by the
// Collect() that made it. A segment whose episode continues ends as kCut, and buffers link it to
// its successor later. With CollectAttributes::traj_len_inf the rows of an episode are returned
// when it is over; if the policy is on_policy, the rest is dropped at the end of Collect().
// CollectAttributes::unroll_len is the length of a sample, and so decides when there are enough
// rows. The collector does not cut segments into samples: GetTrainSample() of the policy does, or a
// buffer draws sequences along the links. An abnormal step is not counted and drops the rows of its
// episode, of all players, that were not returned yet.
//
// Episodes, for algorithms that learn from them (policy gradients, hindsight, imitation): one
// segment per episode, in the order in which they began. No segment ends as kCut, and all rows of
// an episode have the same `collect_iter`. CollectOptions::target and n_episode of the policy count
// episodes; drop_extra has no effect, because there are no extra episodes. An abnormal episode is
// dropped and replaced by another one.
//
// Games: every vector step makes one row per env and player that has not ended
// (EnvManager::plays()), until one of the collected players has enough samples. drop_extra cuts the
// rows of each player to the target. on_policy, traj_len_inf and unroll_len of a policy apply to
// the rows of its player.
//
// Metrics: every collect_print_freq train iterations, if an episode has finished, the metrics that
// docs/reference/collector.md lists, as "<name>_iter/<metric>" and "<name>_step/<metric>", and a
// line in the log. Games have reward<p>_mean, _std, _max and _min for each player p.
//
// Ownership, threads, errors: as ISerialCollector.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto collector,
//                         SampleSerialCollector::Create({}, &envs, policy->collect_mode(), deps));
//   CollectOptions options;
//   options.target = 64;
//   DING_ASSIGN_OR_RETURN(const SegmentBatch data, collector->Collect(options));
//
//   DING_ASSIGN_OR_RETURN(auto battle,
//                         BattleEpisodeSerialCollector::Create({}, &games, {ours, theirs}, deps));
//   DING_ASSIGN_OR_RETURN(const BattleData episodes, battle->Collect(options));
#ifndef DING_WORKER_COLLECTOR_SERIAL_SERIAL_COLLECTORS_H_
#define DING_WORKER_COLLECTOR_SERIAL_SERIAL_COLLECTORS_H_

#include <cstdint>
#include <memory>
#include <optional>
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
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The result of one collect.
struct Collected {
  std::vector<SegmentBatch> players;       // empty for players that are not collected
  std::vector<CollectedEpisode> episodes;  // finished episodes, env by env
};

// The loop of our serial collectors: steps envs until there are enough samples or episodes of N
// players, and makes training data of them.
//
// Samples: steps all ready envs until one of the wanted players has enough. With
// CollectAttributes::unroll_len 1 a sample is a row. With T > 1 it is T consecutive rows of one
// episode of a player, counted from the first row of the episode; the rows that are left at the end
// of an episode are one sample, too. The sample of a running episode counts when its last row is
// there:
//
//     T = 3    collect of 2 samples ─────────────┐   collect of 2 samples ─┐
//     env 0    a0 a1 a2 | a3 a4 (a ends) | b0 b1 │ b2 | b3 b4 b5 |         │
//     samples         1                2         │  1           2
//
// All rows are returned, also those of unfinished samples. The policy cuts samples in
// GetTrainSample(), or a buffer draws them along the links of the rows. The unfinished sample of an
// off-policy policy goes on in the next collect. An on-policy policy cuts its rows at the end of
// each collect, so the next one begins new samples; its rows that wait for the end of their episode
// are dropped then.
//
// Episodes (Options::by_episode): begins and finishes exactly the target number.
//
//     ready envs ──► in an episode of this collect: acts
//                └─► idle: begins one while fewer than the target have begun; else waits
//
// Every episode that begins is finished and none is cut, so statistics over them are unbiased. A
// manager may report only some envs as ready and may answer later. Envs that are in the middle of
// an episode when a collect begins are reset first.
//
// Ownership: the core must outlive it.   Threads: thread-compatible.
// Errors:    as ISerialCollector::Collect(); errors name the collector. After an error the rows
//            made so far stay in the core, and the next Collect() returns them. By episode, all
//            episodes of that collect are dropped, including finished ones: short episodes finish
//            first and would be a biased sample.
//
// Example:
//   CollectLoop loop({}, core.get());
//   DING_ASSIGN_OR_RETURN(Collected collected, loop.Collect(options));
//   return std::move(collected.players[0]);
class CollectLoop {
 public:
  struct Options {
    // The players to collect, ascending. The rows of the others are dropped.
    std::vector<int> players = {0};
    // Whether to collect episodes, one segment each. The core must have whole_episodes.
    bool by_episode = false;
    // Whether to pass the data through GetTrainSample() of the policies.
    bool get_train_sample = true;
    // If set, changes the rewards of player 0 in each finished episode. The core must have
    // whole_episodes.
    RewardShaping reward_shaping;
  };

  CollectLoop(Options options, CollectCore* core) : options_(std::move(options)), core_(core) {}

  // Collects CollectOptions::target samples or episodes. The default is n_sample or n_episode of
  // the first player's policy. A target of fewer episodes than envs is refused.
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
  absl::Status ShapeRewards(const Timesteps& timesteps);

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

// Create() of each of these collectors launches `env` if it is not launched.
//   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit

class SampleSerialCollector : public CoreCollector {
 public:
  struct Options : SerialCollectorOptions {
    // The number of rows of a trajectory, at least 1. Collect() counts and returns the rows of an
    // env together when there are `traj_len` of them, or when their episode is over. The rows that
    // are left wait for the next collect, or are dropped if the policy is on_policy. Not set: each
    // row counts at once. With traj_len_inf of a policy a trajectory is a whole episode.
    std::optional<int64_t> traj_len;
    // If set, changes the rewards of each finished episode, whose rows count when it is over, as
    // with traj_len_inf.
    RewardShaping reward_shaping;
  };

  static absl::StatusOr<std::unique_ptr<SampleSerialCollector>> Create(Options options,
                                                                       EnvManager* env,
                                                                       CollectMode* policy,
                                                                       ComponentDeps deps);
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override;
  // The number of samples returned so far; with an unroll_len of 1, a sample is a row.
  int64_t total_train_sample_count() const { return core()->total_train_sample_count(); }

 private:
  SampleSerialCollector(CollectLoop::Options loop, std::unique_ptr<CollectCore> from)
      : CoreCollector(std::move(from)), loop_(std::move(loop), core()) {}

  CollectLoop loop_;
};

class EpisodeSerialCollector : public CoreCollector {
 public:
  struct Options : SerialCollectorOptions {
    // Whether to pass the episodes through GetTrainSample() of the policy.
    bool get_train_sample = false;
    // If set, changes the rewards of each finished episode.
    RewardShaping reward_shaping;
  };

  static absl::StatusOr<std::unique_ptr<EpisodeSerialCollector>> Create(Options options,
                                                                        EnvManager* env,
                                                                        CollectMode* policy,
                                                                        ComponentDeps deps);
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override;

 private:
  EpisodeSerialCollector(CollectLoop::Options loop, std::unique_ptr<CollectCore> from)
      : CoreCollector(std::move(from)), loop_(std::move(loop), core()) {}

  CollectLoop loop_;
};

class BattleSampleSerialCollector : public BattleCoreCollector {
 public:
  struct Options : SerialCollectorOptions {
    // The players to collect; empty: all. The rows of the others are dropped.
    std::vector<int> collect_players;
  };

  static absl::StatusOr<std::unique_ptr<BattleSampleSerialCollector>> Create(
      Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps);
  absl::StatusOr<BattleData> Collect(const CollectOptions& options) override;

 private:
  BattleSampleSerialCollector(CollectLoop::Options loop, std::unique_ptr<CollectCore> from)
      : BattleCoreCollector(std::move(from)), loop_(std::move(loop), core()) {}

  CollectLoop loop_;
};

class BattleEpisodeSerialCollector : public BattleCoreCollector {
 public:
  struct Options : SerialCollectorOptions {
    // The players to collect; empty: all. The rows of the others are dropped.
    std::vector<int> collect_players;
    // Whether to pass the episodes through GetTrainSample() of the policies.
    bool get_train_sample = false;
  };

  static absl::StatusOr<std::unique_ptr<BattleEpisodeSerialCollector>> Create(
      Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps);
  absl::StatusOr<BattleData> Collect(const CollectOptions& options) override;

 private:
  BattleEpisodeSerialCollector(CollectLoop::Options loop, std::unique_ptr<CollectCore> from)
      : BattleCoreCollector(std::move(from)), loop_(std::move(loop), core()) {}

  CollectLoop loop_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_SERIAL_COLLECTORS_H_
