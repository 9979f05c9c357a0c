// Trains a policy: a learner that learns from what collectors send, and every so often an evaluation.
// With a learner_task_space of n it trains n policies at a time, each with its buffer and evaluations.
//
//     learner task      policy_<n>, buffer_<n> ──► collector tasks for both, the first an evaluation
//         │ its worker dies                          and then one whenever eval_interval is over
//         ├──► the same policy and buffer again, to be resumed
//         │ train_iterations are done
//         │ or it is given up
//         ├──► another policy and buffer
//         │ an evaluation reaches stop_value, and so does its confirmation
//         └──► no task any more. The run has converged when all of its policies have
//
// Evaluations take the place of a collecting task. There is at most one of a policy at a time, and between
// two of them a collecting task begins: evaluations that take longer than eval_interval do not starve
// the learner. Where nothing is collected, since the learner has a data set, evaluations are all that
// collectors do.
//
// Confirmations: where they are wanted, an evaluation that reaches stop_value is followed by a confirmation
// of the same version of the policy, with fresh episodes. The mean of these minus its standard error must
// reach stop_value, too.
//
// Best: the version with the highest mean return, where a confirmation takes the place of its evaluation, is
// in the status of the run and stays in the store.
//
// Turns: a task is for the policy for which the fewest collecting tasks and evaluations run; among equals,
// for the one with the fewest env steps. A policy that begins later has as many as the last one of the
// others, from then on. Policies whose learner has published nothing yet wait until there is no other.
//
// Measurements of finished tasks go to "collector_iter/...", "collector_step/...",
// "evaluator_iter/..." and "evaluator_step/...", named as those of serial runs; those of several policies to
// "policy_<n>_collector_iter/..." etc. Collecting tasks may finish hundreds of times a second: those of
// log_interval and log_train_iters are one measurement.
//
// Ownership: a value of the coordinator's; the command mode is not owned and outlives it.
// Threads:   as of a BaseCommander.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/task_space.h"
#include "ding_worker/coordinator/commander/trained_policy.h"  // IWYU pragma: export
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
    // As in CommanderDeps.
    bool collects = true;
    bool evaluates = true;
    // Between two measurements of collecting tasks, at least 0.
    absl::Duration log_interval = absl::Seconds(1);
    int64_t log_train_iters = 0;    // train iterations between two of them at least
    Resources collector_resources;  // needed
    Resources learner_resources;
    // Mean return of an evaluation at which a policy has converged, if its training has begun.
    double stop_value = std::numeric_limits<double>::infinity();
    bool confirms = false;          // whether that must be confirmed
    double stop_after_seconds = 0;  // from the making of the commander on; at least 0
    int64_t first_env_step = 0;     // of an earlier run, from which this one goes on counting
    // Asked when an evaluation has reached stop_value: whether that is enough. Null: it is.
    std::function<bool()> may_converge;
    // Called for the learner task of each new policy, beside the other policies: may give it settings,
    // resources, or an init_policy. Null: does nothing.
    std::function<void(const std::vector<TrainedPolicy>& others, LearnerTask* task)> prepare;
    // Asked with each report of a learner: whether its policy is given up, for a new one. Null: it is not.
    std::function<bool(const TrainedPolicy& policy, const std::vector<TrainedPolicy>& all)> give_up;
  };
  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // kInvalidArgument lists them. `policy` may be null: there are no settings then.
  static absl::StatusOr<std::unique_ptr<SoloCommander>> Create(const Options& options,
                                                               CommandMode* policy,
                                                               const ComponentDeps& deps);

  std::optional<CollectorTask> GetCollectorTask() override;
  std::optional<LearnerTask> GetLearnerTask() override;
  // Without collecting tasks nothing else may happen until the next evaluation is due.
  absl::Duration AskAgainAfter() const override;
  // Leaves may_converge out. Where confirmations are wanted, only one of them converges.
  bool WouldConverge(const CollectorTask& task, const CollectorFinished& info) const override;
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override;
  // Also that of a policy that has converged, or is given up.
  bool JudgeLearnerFinish(const LearnerInfo& info) const override;
  void FinishLearnerTask(const LearnerTask& task) override;
  void NotifyFailCollectorTask(const CollectorTask& task) override;
  void NotifyFailLearnerTask(const LearnerTask& task) override;
  void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) override;
  void PolicyPublished(const PolicyVersion& version) override;
  // The best version of each policy, one that is to be confirmed, and the newest version of a policy that has
  // converged.
  bool KeepsPolicy(const PolicyVersion& version) const override;
  void AddStatus(RunStatus* status) const override;
  void IncreaseCollectorTaskSpace() override { collector_space_.Increase(); }
  void DecreaseCollectorTaskSpace() override { collector_space_.Decrease(); }
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;
  int64_t total_collector_env_step() const override { return total_collector_env_step_; }
  // If there are several policies, those of the one with the lowest mean.
  std::optional<double> last_eval_value() const override { return last_eval_value_; }
  const std::vector<double>& last_eval_returns() const override { return last_eval_returns_; }

  // The next evaluation is the best one, whatever was before: it is harder than those.
  void ForgetBest() { best_.clear(); }

  // Those that are trained, and those that have converged, in the order in which they began.
  const std::vector<TrainedPolicy>& policies() const { return policies_; }
  // The policy and the buffer of the newest one; empty if there is none.
  std::string current_policy_id() const;
  std::string current_buffer_id() const;
  const TaskSpace& collector_space() const { return collector_space_; }
  const TaskSpace& learner_space() const { return learner_space_; }
  bool converged() const { return converged_; }

 private:
  SoloCommander(const Options& options, CommandMode* policy, const ComponentDeps& deps);

  TrainedPolicy* Find(const std::string& policy_id);
  const TrainedPolicy* Find(const std::string& policy_id) const;
  // The policy that gets the next collecting task, evaluation or confirmation; null: none.
  TrainedPolicy* NextInTurn();
  TrainedPolicy* AddPolicy();
  bool EvaluationIsDue(const TrainedPolicy& policy) const;
  // Until eval_interval is over since the policy's last evaluation began; none has begun: not above 0.
  absl::Duration UntilNextEvaluation(const TrainedPolicy& policy) const;
  void ReleaseCollectorTask(const CollectorTask& task);
  void AddCollectSetting(const TrainedPolicy& policy, CollectorTask* task) const;
  // Takes note of an evaluation with returns.
  void NoteEvaluation(const CollectorTask& task, const CollectorFinished& info);
  // Whether an evaluation, or a confirmation, reaches stop_value.
  bool ReachesStopValue(const CollectorTask& task, const CollectorFinished& info) const;
  // Takes note of what the result says of the policy, if its version is known.
  void NoteBest(const CollectorTask& task, const CollectorFinished& info, TrainedPolicy* policy);
  void NoteConfirmation(const CollectorFinished& info);
  // If it has converged, it is not trained any more.
  void EndTraining(const std::string& policy_id, const TrainedPolicy& policy);
  // Counts it, and measures all since the last measurement if it is time to.
  void NoteCollected(const CollectorTask& task, const CollectorFinished& info);
  // `kind` is "collector", "evaluator" or "confirmation".
  void Measure(absl::string_view kind, const TrainedPolicy& policy, const CollectorFinished& info);
  // reward_... only if an episode was finished.
  NamedValues MetricsOf(bool eval_flag, const TrainedPolicy& policy,
                        const CollectorFinished& info) const;
  absl::Status LoadConfirmations(StateReader* reader);
  // The only policy of a state that was saved before there were several.
  absl::StatusOr<std::vector<TrainedPolicy>> LoadOnlyPolicy(StateReader* reader) const;
  bool trains_several() const { return options_.learner_task_space > 1; }

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
  int64_t confirmations_ = 0;  // begun
  int64_t models_ = 0;         // policies and buffers that were named
  std::vector<TrainedPolicy> policies_;
  std::deque<LearnerTask> failed_learner_tasks_;  // to be given again
  int64_t total_collector_env_step_ = 0;
  std::optional<double> last_eval_value_;
  std::vector<double> last_eval_returns_;
  std::optional<ConfirmationResult> confirmation_;  // the last one
  std::map<std::string, BestPolicy> best_;          // by LearnerTask.name
  bool converged_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_
