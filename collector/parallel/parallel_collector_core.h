// The building block of parallel collectors: runs a task with one policy in envs for one player,
// with one policy in all seats of games (self-play), or with a policy for each seat.
//
//     GetPolicyUpdate ──► policies ──► envs ──► TrajBuffer ──► GetTrainSample ──► SendData
//      each vector step                             └─ n_sample samples, or whole episodes
//
// It waits for the first version of each player's policy. Before later vector steps it loads newer
// versions for the players that learn. Each row has, as `collect_iter`, the train iteration of the
// version that acted (in games the version of player 0). The check for a newer version is cheap,
// because the link knows it without asking another process.
//
// Rows are sent when all envs together have n_sample samples (rows, if unroll_len is 1). The rows
// of a running episode are a segment that ends as kCut. With n_episode, this many whole episodes,
// of any envs, are sent together, or a few more that end in the same step. An on-policy policy
// begins only n_episode episodes between two sends, as in a serial run, so that short episodes are
// not preferred. With traj_len_inf or reward_shaping the rows of an episode count when it is over.
// Each env plays episodes_per_env episodes; after the last one the remaining rows are sent. An
// abnormal step drops the rows of its episode that were not sent yet, and its env plays another
// episode. When the task is closed, rows that were not sent are dropped.
//
// In a game the sent rows are the choices of the players that learn (turn_transitions.h), as in a
// serial run (collector/serial/self_play_collector.h). n_sample counts the samples of the seat that
// has the most, including the rows in which its player waits.
//
// A task with eval_flag waits for a policy, evaluates it with episodes_per_env episodes per env,
// and sends no data: with ParallelCollectorParts::evaluator, or else like
// InteractionSerialEvaluator.
//
// Metrics of a collecting task, every print_freq sends and at least 5 seconds apart: averages over
// the last 2 * print_freq sends of `policy_time` and `env_time` (seconds per vector step) and
// `payload_bytes` (of a sent row with its share of the final observations), as
// "<name>_iter/<metric>", and a line in the log.
//
// A parallel collector of your own is a class that inherits from this one: its Create() calls
// Prepare(), and it overrides the steps that it changes. docs/reference/collector_core.md has an
// example. Run() calls the steps in this order:
//
//     UpdatePolicy() ─► PolicyInference() ─► EnvStep() ─► ProcessTimestep() ─► SelectRows() ─► send ─► IterAfterHook()
//      when it is due      each policy          all envs      NeedNewEpisode()        when rows are due
//           ▲                                                                                          │
//           └──────────────────────────────────────────────────────────────────────────────────────────┘
//
// An evaluation calls UpdatePolicy() alone: its evaluator does the rest.
//
// Ownership, threads: as BaseParallelCollector. Steps are called on the thread of Run().
// Errors:    Prepare() lists all problems of options, task and parts. Errors of Run() name the
//            collector. An error or an exception of a step ends Run().
//
// Example:
//   class MyCollector : public ParallelCollectorCore {
//    public:
//     static absl::StatusOr<std::unique_ptr<BaseParallelCollector>> Create(
//         const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
//         const ParallelCollectorParts& parts, const ComponentDeps& deps) {
//       DING_ASSIGN_OR_RETURN(Setup setup, Prepare(ReadParallelCollectorOptions(config), task, parts, deps,
//                                                  {{parts.collect_mode, /*updates=*/true}}));
//       return absl::WrapUnique(new MyCollector(std::move(setup)));
//     }
//
//    private:
//     using ParallelCollectorCore::ParallelCollectorCore;
//     absl::StatusOr<SegmentBatch> SelectRows(SegmentBatch data) override { ... }
//   };
#ifndef DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_COLLECTOR_CORE_H_
#define DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_COLLECTOR_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/collector/core/turn_transitions.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class ParallelCollectorCore : public BaseParallelCollector {
 public:
  struct Options {
    // The number of sends between two lines of averages, at least 1.
    int64_t print_freq = 5;
    // The time between two checks for a newer policy; 0: before every vector step.
    absl::Duration update_policy_period;
    // Run() fails after this many abnormal steps of one env, if no row or episode of the env was
    // sent in between; at least 1.
    int max_abnormal = 10;
    // Name in RewardShapingRegistry() of the function that changes the rewards of finished
    // episodes; rows are then sent when their episode is over. Empty: none. Not for games.
    std::string reward_shaping;

    // Returns all problems of the options; empty if there are none.
    std::vector<std::string> Problems() const;
  };

  //   kInvalidArgument     policy and envs do not fit, or a version of the policy does not fit
  //   kFailedPrecondition  no env is ready (for instance because episode_num is too low), or Run()
  //                        was called before
  //   kResourceExhausted   an env was abnormal too often
  //   other codes          an env, the policy or the link failed
  absl::Status Run() override;
  CollectorFinishInfo GetFinishInfo() const override;

 protected:
  // The checked arguments of the constructor; only Prepare() makes one.
  class Setup {
   private:
    friend class ParallelCollectorCore;
    Setup() = default;
    Options options;
    ParallelCollectorTask task;
    ParallelCollectorParts parts;
    ComponentDeps deps;
    std::vector<ParallelPlayer> players;
    bool is_game = false;
  };
  // `players` are the players of a collecting task: one for each player of the envs, or one that
  // plays all of them. An evaluation ignores them. `is_game` says that the sign of a return is the
  // result of a game. The default name is "collector" or "evaluator".
  //   kInvalidArgument  lists all problems, including the caller's `more_problems`
  static absl::StatusOr<Setup> Prepare(const Options& options, ParallelCollectorTask task,
                                       const ParallelCollectorParts& parts, ComponentDeps deps,
                                       std::vector<ParallelPlayer> players, bool is_game = false,
                                       const std::vector<std::string>& more_problems = {});
  explicit ParallelCollectorCore(Setup setup);

  const ParallelCollectorTask& task() const { return task_; }
  const ParallelCollectorParts& parts() const { return parts_; }
  const ComponentDeps& deps() const { return deps_; }
  // The number of episodes that the env has finished.
  int64_t episodes(int env_id) const { return episodes_[static_cast<size_t>(env_id)]; }

  // Loads the policy of `player` if there is a newer version; waits for one for at most `timeout`.
  // Returns whether the player has a policy now. No env is stepped before each player has one.
  virtual absl::StatusOr<bool> UpdatePolicy(int player, absl::Duration timeout);
  // Chooses the actions of a vector step: as CollectMode::Forward(), or ForwardWith() if the task
  // has tensors. In a game it is called once for each seat.
  virtual absl::Status PolicyInference(CollectMode* policy, const ColumnsView& obs,
                                       absl::Span<const int> env_ids, const NamedValues& settings,
                                       const MutableColumnsView& out);
  // Steps the envs: as EnvManager::Step(). The collector stores the returned steps, which may for
  // instance have other rewards. They must be valid until the next call.
  virtual absl::StatusOr<const Timesteps*> EnvStep(absl::Span<const int> env_ids,
                                                   const ColumnsView& actions);
  // Takes the results of a vector step, after `core` has stored its rows: counts steps and episodes
  // for GetFinishInfo(), and shapes rewards.
  virtual absl::Status ProcessTimestep(const Timesteps& timesteps, CollectCore* core);
  // Whether the env plays another episode; called once after each episode. By default the env plays
  // episodes_per_env episodes; more need an env manager without episode_num.
  virtual absl::StatusOr<bool> NeedNewEpisode(int env_id);
  // Returns which of the due rows to send; the default is all of them. `data` are training data
  // already, and whole episodes if the policy has n_episode. If no rows are returned, nothing is
  // sent.
  virtual absl::StatusOr<SegmentBatch> SelectRows(SegmentBatch data) { return data; }
  // Called at the end of each vector step, after its rows were sent. Logs and writes the averages
  // when they are due.
  virtual absl::Status IterAfterHook();

 private:
  static std::vector<std::string> ProblemsOf(const Options& options,
                                             const ParallelCollectorTask& task,
                                             const ParallelCollectorParts& parts,
                                             absl::Span<const ParallelPlayer> players);
  absl::Status TryRun();
  absl::Status WaitForPolicies();
  // Loads newer policies that are available within the timeout.
  absl::Status TakePolicies(absl::Duration timeout);
  absl::Status Evaluate();
  absl::Status Collect();
  // Returns the player in a seat of the env; home_seat 1 exchanges two players.
  size_t PlayerIn(int seat) const {
    return static_cast<size_t>(seat + task_.home_seat) % players_.size();
  }
  std::vector<CollectMode*> Seats() const;
  // Returns a seat of a player that learns. kInvalidArgument if several learn, whose rows are sent
  // together, and the players have different observations or actions.
  absl::StatusOr<int> SeatThatLearns() const;
  absl::Status Play(CollectCore* core);
  absl::Status StepEnvs(CollectCore* core);
  ActingEnvs Playing(const ReadyObs& ready);
  bool plays(int env_id) const { return plays_[static_cast<size_t>(env_id)] != 0; }
  // Whether the env has begun an episode, or begins one now.
  bool MayAct(int env_id);
  absl::StatusOr<SegmentBatch> TakeRows(CollectCore* core);
  absl::Status HandOver(CollectCore* core);
  // Handles an error of the link: kCancelled closes the task.
  absl::Status OfLink(const absl::Status& status);

  const Options options_;
  const ParallelCollectorTask task_;
  const ParallelCollectorParts parts_;
  const ComponentDeps deps_;
  const std::vector<ParallelPlayer> players_;  // the players of a collecting task
  RewardShaping reward_shaping_;               // may be empty

  // Members of the thread that calls Run().
  bool has_run_ = false;
  std::vector<uint64_t> versions_;        // of the acting policies; 0: none yet
  std::vector<uint8_t> has_policy_;       // whether a player can act
  CollectOptions acting_;                 // have the train iteration of player 0
  std::optional<TurnTransitions> moves_;  // of a game
  std::optional<Timer> since_look_;       // time since the last check for a newer policy
  std::vector<int64_t> episodes_;         // number of finished episodes per env
  std::vector<uint8_t> plays_;            // whether an env has episodes left
  int64_t envs_playing_ = 0;              // number of envs with episodes left
  int64_t episodes_to_send_ = 0;          // number of episodes that ended since rows were sent
  // With n_episode of an on-policy policy: how many more episodes may begin before rows are sent,
  // and whether each env is in an episode.
  std::optional<int64_t> episodes_to_begin_;
  std::vector<uint8_t> in_episode_;
  std::vector<int> playing_ids_;       // scratch of Playing()
  std::vector<int64_t> playing_rows_;  // scratch of Playing()
  Monitor averages_;
  std::optional<Timer> since_log_;
  int64_t hand_overs_ = 0;
  bool has_sent_ = false;  // in this vector step

  mutable Mutex mutex_;
  CollectorFinishInfo info_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_COLLECTOR_CORE_H_
