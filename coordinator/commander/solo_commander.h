// Trains one policy: a learner that learns from what collectors send, and every so often an
// evaluation.
//
//     learner task      policy_<n>, buffer_<n> ──► collector tasks for both, the first an evaluation
//         │ its worker dies                          and then one whenever eval_interval is over
//         ├──► the same policy and buffer again, to be resumed
//         │ train_iterations are done
//         └──► another policy and buffer
//
// Evaluations take the place of a collecting task. There is at most one at a time, and between two
// of them a collecting task begins: evaluations that take longer than eval_interval do not starve
// the learner.
//
// Measurements of finished tasks go to "collector_iter/...", "collector_step/...",
// "evaluator_iter/..." and "evaluator_step/...", named as those of serial runs. Collecting tasks may
// finish hundreds of times a second: those of log_interval and log_train_iters are one measurement.
//
// Ownership: a value of the coordinator's; the command mode is not owned and outlives it.
// Threads:   as of a BaseCommander.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/task_space.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class SoloCommander : public BaseCommander {
 public:
  struct Options {
    int collector_task_space = 1;
    int learner_task_space = 1;
    double eval_interval = 60;  // seconds, at least 0
    // Between two measurements of collecting tasks, at least 0.
    absl::Duration log_interval = absl::Seconds(1);
    int64_t log_train_iters = 0;    // train iterations between two of them at least
    Resources collector_resources;  // needed
    Resources learner_resources;
    // Mean return of an evaluation at which the run has converged, if training has begun.
    double stop_value = std::numeric_limits<double>::infinity();
    double stop_after_seconds = 0;  // from the making of the commander on; at least 0
    int64_t first_env_step = 0;     // of an earlier run, from which this one goes on counting
    // Asked when an evaluation has reached stop_value: whether that is enough. Null: it is.
    std::function<bool()> may_converge;
  };
  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // kInvalidArgument lists them. `policy` may be null: there are no settings then.
  static absl::StatusOr<std::unique_ptr<SoloCommander>> Create(const Options& options,
                                                               CommandMode* policy,
                                                               const ComponentDeps& deps);

  std::optional<CollectorTask> GetCollectorTask() override;
  std::optional<LearnerTask> GetLearnerTask() override;
  // Leaves may_converge out.
  bool WouldConverge(const CollectorTask& task, const CollectorFinished& info) const override;
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override;
  void FinishLearnerTask(const LearnerTask& task) override;
  void NotifyFailCollectorTask(const CollectorTask& task) override;
  void NotifyFailLearnerTask(const LearnerTask& task) override;
  void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) override;
  void IncreaseCollectorTaskSpace() override { collector_space_.Increase(); }
  void DecreaseCollectorTaskSpace() override { collector_space_.Decrease(); }
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;
  int64_t total_collector_env_step() const override { return total_collector_env_step_; }
  std::optional<double> last_eval_value() const override { return last_eval_value_; }
  const std::vector<double>& last_eval_returns() const override { return last_eval_returns_; }

  // The policy and the buffer of the newest learner task; empty if there is none.
  const std::string& current_policy_id() const { return current_policy_id_; }
  const std::string& current_buffer_id() const { return current_buffer_id_; }
  const TaskSpace& collector_space() const { return collector_space_; }
  const TaskSpace& learner_space() const { return learner_space_; }
  bool converged() const { return converged_; }

 private:
  SoloCommander(const Options& options, CommandMode* policy, const ComponentDeps& deps);

  bool EvaluationIsDue() const;
  void ReleaseCollectorTask(const CollectorTask& task);
  void AddCollectSetting(bool eval_flag, CollectorTask* task) const;
  // Counts it, and measures all since the last measurement if it is time to.
  void NoteCollected(const CollectorFinished& info);
  void Measure(bool eval_flag, const CollectorFinished& info);
  // reward_... only if an episode was finished.
  NamedValues MetricsOf(bool eval_flag, const CollectorFinished& info) const;

  const Options options_;
  CommandMode* const policy_;
  const ComponentDeps deps_;
  int64_t made_nanos_;
  TaskSpace collector_space_;
  TaskSpace learner_space_;
  int64_t collector_tasks_ = 0;  // given, evaluations included
  int64_t learner_tasks_ = 0;
  int64_t collections_ = 0;  // begun, without evaluations
  int64_t evaluations_ = 0;
  int64_t models_ = 0;  // policies and buffers that were named
  std::string current_policy_id_;
  std::string current_buffer_id_;
  std::deque<LearnerTask> failed_learner_tasks_;  // to be given again
  int64_t learner_step_ = 0;                      // of the current policy
  bool evaluating_ = false;
  std::optional<int64_t> eval_began_nanos_;  // the last one
  bool collected_since_evaluation_ = true;   // a collecting task was given
  int64_t total_collector_env_step_ = 0;
  int64_t total_sample_count_ = 0;
  int64_t total_episode_count_ = 0;
  CollectorFinished collected_;  // of all collecting tasks since the last measurement
  std::optional<int64_t> measured_nanos_;
  int64_t measured_train_iter_ = 0;
  std::optional<double> last_eval_value_;
  std::vector<double> last_eval_returns_;
  bool converged_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_
