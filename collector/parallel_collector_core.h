// What the parallel collectors share: one task, of one player in envs for one or of two who play
// against each other.
//
//     GetPolicyUpdate ──► policies ──► envs ──► TrajBuffer ──► GetTrainSample ──► SendData
//      each vector step                             └─ n_sample * env_num rows, or whole episodes
//
// It waits for the first version of each player's policy. From then on it takes a newer one, if
// there is one, before a vector step, of those who learn: the version that acted stands in each row
// as `collect_iter` (of games: player 0's). Whether there is one costs a call of the link, which has
// been told of it already.
//
// Rows are handed over when there are n_sample of each env in the mean, those of an episode that
// goes on as a segment that ends as kCut; with n_episode (or traj_len_inf) an episode's rows when it
// is over. Each env plays episodes_per_env episodes and is then left alone; when all have, the rest
// is handed over. An abnormal step drops those rows of its episode that were not handed over, and
// its env plays another one. What is not handed over when the task is closed is dropped.
//
// A task with eval_flag waits for a policy, evaluates it as InteractionSerialEvaluator does, with
// episodes_per_env episodes of each env, and sends no data.
//
// Metrics, every print_freq hand-overs and 5 seconds, of a collecting task: averages over the last
// 2 * print_freq hand-overs of `policy_time` and `env_time` (seconds of a vector step) and
// `payload_bytes` (of a row that is sent, with its share of the final observations), as
// "<name>_iter/<metric>", and a line in the log.
//
// Ownership, threads: as BaseParallelCollector.
#ifndef DING_WORKER_COLLECTOR_PARALLEL_COLLECTOR_CORE_H_
#define DING_WORKER_COLLECTOR_PARALLEL_COLLECTOR_CORE_H_

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
#include "ding_worker/collector/base_parallel_collector.h"
#include "ding_worker/collector/collect_core.h"
#include "ding_worker/collector/collector_link.h"
#include "ding_worker/collector/own_moves.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/traj_buffer.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class ParallelCollectorCore : public BaseParallelCollector {
 public:
  struct Options {
    // Hand-overs between two lines of averages, at least 1.
    int64_t print_freq = 5;
    // Between two looks for a newer policy; 0: before every vector step.
    absl::Duration update_policy_period;
    // Abnormal steps of one env, without a row or an episode of it handed over in between, after
    // which Run() fails; at least 1.
    int max_abnormal = 10;

    // What is wrong with them; empty if nothing is.
    std::vector<std::string> Problems() const;
  };

  //   kInvalidArgument     policy and envs do not fit together, or a version of the policy does not
  //                        fit
  //   kFailedPrecondition  no env is ready (its episode_num is too low, say), or the second call
  //   kResourceExhausted   an env kept being abnormal
  //   other codes          an env, the policy or the link failed
  absl::Status Run() override;
  CollectorFinishInfo GetFinishInfo() const override;

 protected:
  // `players`: of a collecting task, one, or two in a game; of an evaluation none is looked at.
  static std::vector<std::string> ProblemsOf(const Options& options,
                                             const ParallelCollectorTask& task,
                                             const ParallelCollectorParts& parts,
                                             absl::Span<const ParallelPlayer> players);
  // "collector" or "evaluator", if deps have no name.
  static std::string NameOf(const ParallelCollectorTask& task, const ComponentDeps& deps);

  // There are no problems.
  ParallelCollectorCore(const Options& options, ParallelCollectorTask task,
                        const ParallelCollectorParts& parts, ComponentDeps deps,
                        std::vector<ParallelPlayer> players, bool is_game);

 private:
  absl::Status TryRun();
  absl::Status WaitForPolicies();
  // Takes newer policies, if there are any within the timeout.
  absl::Status TakePolicies(absl::Duration timeout);
  absl::Status TakePolicy(int player, absl::Duration timeout);
  absl::Status Evaluate();
  absl::Status Collect();
  // Who sits in a seat of the env: they change places with home_seat 1.
  size_t PlayerIn(int seat) const {
    return static_cast<size_t>(seat + task_.home_seat) % players_.size();
  }
  std::vector<CollectMode*> Seats() const;
  absl::Status Play(CollectCore* core);
  absl::Status StepEnvs(CollectCore* core);
  ActingEnvs Playing(const ReadyObs& ready);
  void Account(const Timesteps& timesteps, int64_t step_count);
  bool has_played_all(int env_id) const {
    return episodes_[static_cast<size_t>(env_id)] >= parts_.episodes_per_env;
  }
  absl::StatusOr<SegmentBatch> TakeRows(CollectCore* core);
  absl::Status HandOver(CollectCore* core);
  void Log(const SegmentBatch& data, const CollectorProgress& progress,
           const CollectCore::StepTimes& times);
  // A link that says kCancelled closes the task.
  absl::Status OfLink(const absl::Status& status);

  const Options options_;
  const ParallelCollectorTask task_;
  const ParallelCollectorParts parts_;
  const ComponentDeps deps_;
  const std::vector<ParallelPlayer> players_;  // of a collecting task

  // Of the thread that runs.
  bool has_run_ = false;
  std::vector<uint64_t> versions_;     // of the policies that act; 0: there is none yet
  CollectOptions acting_;              // with the train iteration of player 0
  std::optional<OwnMoves> moves_;      // of a game
  std::optional<Timer> since_look_;    // for a newer policy
  std::vector<int64_t> episodes_;      // finished ones of each env
  int64_t envs_playing_ = 0;           // those that have not played all
  int waits_ = 0;                      // for an env to be ready, in a row
  std::vector<int> playing_ids_;       // scratch of Playing()
  std::vector<int64_t> playing_rows_;  // scratch of Playing()
  Monitor averages_;
  std::optional<Timer> since_log_;
  int64_t hand_overs_ = 0;

  mutable Mutex mutex_;
  CollectorFinishInfo info_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_COLLECTOR_CORE_H_
