// The serial collectors: a number of samples, or of whole episodes, in envs for one player or in games.
//
//                   samples                       episodes
//     one player    SampleSerialCollector         EpisodeSerialCollector
//     games         BattleSampleSerialCollector   BattleEpisodeSerialCollector
//
// All are a CollectCore with the loop of core/collect_loop.h, which says when there are enough samples or episodes:
//
//     env manager ──ready_obs──► TrajBuffer's next rows ──► policy writes its outputs into them
//          ▲                           │                                    │
//          └────────── Step(actions: a view of those rows) ◄────────────────┘
//
// Samples, for off-policy algorithms and on-policy ones like PPO: every row is returned by the Collect() that made it.
// A segment whose episode continues ends as kCut, and buffers link it to its successor later. With
// CollectAttributes::traj_len_inf the rows of an episode are returned when it is over; if the policy is on_policy, the
// rest is dropped at the end of Collect(). CollectAttributes::unroll_len is the length of a sample, and so says when
// there are enough rows. It does not cut segments: GetTrainSample() of the policy does, or a buffer draws sequences
// along the links. An abnormal step is not counted and drops the rows of its episode, of all players, that were not
// returned yet.
//
// Episodes, for algorithms that learn from them (policy gradients, hindsight, imitation): one segment per episode, in the
// order in which they began. No segment ends as kCut, and all rows of an episode have the same `collect_iter`.
// CollectOptions::target and n_episode of the policy count episodes; drop_extra has no effect, because there are no extra
// episodes. An abnormal episode is dropped and replaced by another one.
//
// Games: every vector step makes one row per env and player that has not ended (EnvManager::plays()), until one of the
// collected players has enough samples. drop_extra cuts the rows of each player to the target. on_policy, traj_len_inf
// and unroll_len of a policy apply to the rows of its player.
//
// Metrics: every collect_print_freq train iterations, if an episode has finished, the metrics that
// docs/reference/collector.md lists, as "<name>_iter/<metric>" and "<name>_step/<metric>", and a line in the log. Games
// have reward<p>_mean, _std, _max and _min for each player p.
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
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collect_loop.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Create() of all of them launches `env` if it is not launched.
//   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit

class SampleSerialCollector : public CoreCollector {
 public:
  struct Options : SerialCollectorOptions {
    // If set, at least 1: the rows of a trajectory of an env. Collect() counts and returns them together, when they are
    // so many or their episode is over; what is left waits for the next collect, or is dropped if the policy is
    // on_policy. Not set: each row counts at once. With traj_len_inf of a policy a trajectory is a whole episode.
    std::optional<int64_t> traj_len;
  };

  static absl::StatusOr<std::unique_ptr<SampleSerialCollector>> Create(Options options,
                                                                       EnvManager* env,
                                                                       CollectMode* policy,
                                                                       ComponentDeps deps);
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override;
  // The number of samples returned so far; with an unroll_len of 1, of rows.
  int64_t total_train_sample_count() const { return core()->total_train_sample_count(); }

 private:
  explicit SampleSerialCollector(std::unique_ptr<CollectCore> from)
      : CoreCollector(std::move(from)), loop_({}, core()) {}

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
