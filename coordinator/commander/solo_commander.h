// Trains a policy: a learner learns from the rows of collectors, and the policy is evaluated from
// time to time. With a learner_task_space of n it trains n policies at a time, each with its own
// buffer and evaluations.
//
//     learner task      policy_<n>, buffer_<n> ──► collector tasks for both, the first an evaluation
//         │                                          and then one every eval_interval
//         │ its worker dies
//         ├──► the same policy and buffer again, with `resume`
//         │ train_iterations are done, or give_up() returns true
//         ├──► another policy and buffer
//         │ an evaluation and its confirmation reach stop_value
//         └──► no further task. The run has converged when all of its policies have converged
//
// Evaluations: an evaluation takes the place of a collecting task. A policy has at most one at a
// time, and between two of them a collecting task begins, so that evaluations that take longer than
// eval_interval do not starve the learner. If nothing is collected, because the learner has a data
// set, collectors only evaluate.
//
// Confirmations (Options::confirms): after an evaluation that reaches stop_value, a confirmation
// plays fresh episodes with the same version of the policy. Their mean return minus its standard
// error must reach stop_value, too.
//
// The best version of a policy has the highest mean return; the return of a confirmation replaces
// the return of its evaluation. The status of the run names the best version, and it stays in the
// store.
//
// Scheduling: the next task is for the policy with the fewest running collecting tasks and
// evaluations. Of several such policies, it is for the one with the fewest env steps. A policy that
// begins later starts with the lowest count of the others. Policies whose learner has not published
// a version yet get tasks only if there are no others.
//
// Opponents (Options::has_opponent): the second of two policies is the opponent of the first in a
// game of two. Its learner task is named "opponent". It is never evaluated: the run has converged
// when the first policy has. Each task collects rows of one policy; the other policy plays the
// version that was the newest when the task was given. The first policy has seat 0, also in the
// opponent's tasks. No task is given before both have published a version.
//
// Metrics: finished tasks write "collector_iter/...", "collector_step/...", "evaluator_iter/..."
// and "evaluator_step/...", with the names of serial runs; with several policies
// "policy_<n>_collector_iter/..." and so on. Collecting tasks may finish hundreds of times a
// second, so all tasks within log_interval and log_train_iters are one measurement.
//
// Ownership: as BaseCommander. The command mode must outlive it.
// Threads:   as BaseCommander.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/trained_policy.pb.h"  // IWYU pragma: export
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

using TrainedPolicies = google::protobuf::RepeatedPtrField<TrainedPolicy>;

// Returns the score of the last evaluation; nullopt if there was none.
inline std::optional<double> EvalValue(const TrainedPolicy& policy) {
  if (policy.eval_return().empty()) return std::nullopt;
  return policy.has_eval_score() ? policy.eval_score() : MeanReturn(policy.eval_return());
}

class SoloCommander : public BaseCommander {
 public:
  struct Options {
    int collector_task_space = 1;
    int learner_task_space = 1;
    double eval_interval = 60;  // seconds, at least 0
    // Whether an opponent learns beside the policy: see Opponents above. The learner_task_space
    // must be 2 then.
    bool has_opponent = false;
    CommandMode* opponent = nullptr;  // as `policy` of Create(); must outlive the commander
    // As in CommanderDeps.
    bool collects = true;
    bool evaluates = true;
    bool lockstep = false;
    // The least time between two measurements of collecting tasks, at least 0.
    absl::Duration log_interval = absl::Seconds(1);
    int64_t log_train_iters = 0;    // the least train iterations between two measurements
    Resources collector_resources;  // the resources that a task needs
    Resources learner_resources;
    // The mean return of an evaluation at which a policy has converged, if its training has begun.
    double stop_value = std::numeric_limits<double>::infinity();
    bool confirms = false;          // whether a confirmation must also reach it
    std::string best_by;            // as in CommanderDeps
    double stop_after_seconds = 0;  // no policy converges before this time since the run began
    int64_t first_env_step = 0;     // as in CommanderDeps
    // Called when an evaluation has reached stop_value; returns whether the policy has converged.
    // Null: it has.
    std::function<bool()> may_converge;
    // Called for the learner task of each new policy, with the other policies. It may give the task
    // settings, resources or an init_policy. Null: the task stays as it is.
    std::function<void(const TrainedPolicies& others, LearnerTask* task)> prepare;
    // Called with each report of a learner; returns whether to replace its policy by a new one.
    // Null: never.
    std::function<bool(const TrainedPolicy& policy, const TrainedPolicies& all)> give_up;
  };
  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // `policy` may be null: there are no settings then.
  //   kInvalidArgument  lists the options that are out of range
  static absl::StatusOr<std::unique_ptr<SoloCommander>> Create(const Options& options,
                                                               CommandMode* policy,
                                                               const ComponentDeps& deps);

  std::optional<CollectorTask> GetCollectorTask() override;
  std::optional<LearnerTask> GetLearnerTask() override;
  // The time until the next evaluation is due. Without collecting tasks no other event may come
  // until then.
  absl::Duration AskAgainAfter() const override;
  // Does not call may_converge. With Options::confirms, only a confirmation makes a policy
  // converge.
  bool WouldConverge(const CollectorTask& task, const CollectorFinished& info) const override;
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override;
  // kInvalidArgument: an evaluation lacks the value Options::best_by, and no earlier evaluation had
  // it.
  absl::Status status() const override { return status_; }
  // Also true if the policy of the task has converged or is given up.
  bool JudgeLearnerFinish(const LearnerInfo& info) const override;
  std::string FinishLearnerTask(const LearnerTask& task) override;
  void NotifyFailCollectorTask(const CollectorTask& task) override;
  void NotifyFailLearnerTask(const LearnerTask& task) override;
  void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) override;
  void PolicyPublished(const PolicyVersion& version) override;
  // Keeps the best version of each policy, a version that is being confirmed, and the newest
  // version of a policy that has converged.
  bool KeepsPolicy(const PolicyVersion& version) const override;
  void AddStatus(RunStatus* status) const override;
  void IncreaseCollectorTaskSpace() override { collector_space_.Increase(); }
  void DecreaseCollectorTaskSpace() override { collector_space_.Decrease(); }
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;
  int64_t total_collector_env_step() const override { return state_.total_collector_env_step(); }
  // With several policies, the value of the policy with the lowest mean.
  std::optional<double> last_eval_value() const override;
  std::vector<double> last_eval_returns() const override {
    return {state_.last_eval_return().begin(), state_.last_eval_return().end()};
  }

  // Forgets the best versions, because later evaluations are harder: the next evaluated version
  // becomes the best.
  void ForgetBest() { state_.clear_best(); }

  // The policies that are trained or have converged, in the order in which they began.
  const TrainedPolicies& policies() const { return state_.policy(); }
  // The ids of the newest policy and of its buffer; empty if there is none.
  std::string current_policy_id() const;
  std::string current_buffer_id() const;
  const TaskSpace& collector_space() const { return collector_space_; }
  const TaskSpace& learner_space() const { return learner_space_; }
  bool converged() const { return state_.converged(); }

 protected:
  SoloCommander(const Options& options, CommandMode* policy, const ComponentDeps& deps);

  // Whether a policy has converged when an evaluation has reached stop_value.
  virtual bool MayConverge() const { return !options_.may_converge || options_.may_converge(); }

 private:
  // The results of a policy's collecting tasks since the last measurement.
  struct Unmeasured {
    CollectorFinished collected;
    std::optional<int64_t> measured_nanos;
    int64_t measured_train_iter = 0;
  };

  TrainedPolicy* Find(const std::string& policy_id) {
    return const_cast<TrainedPolicy*>(std::as_const(*this).Find(policy_id));
  }
  const TrainedPolicy* Find(const std::string& policy_id) const;
  // Returns the policy that gets the next collecting task, evaluation or confirmation; null if
  // there is none.
  TrainedPolicy* NextInTurn();
  TrainedPolicy* AddPolicy();
  // In lockstep: returns whether the round of the policy's version has a further task, and counts
  // it.
  bool TakeTaskOfRound(const TrainedPolicy& policy);
  bool EvaluationIsDue(const TrainedPolicy& policy) const;
  // With an opponent: whether the policy is the opponent.
  bool IsOpponent(const TrainedPolicy& policy) const;
  // Returns the newest version of the policy's opponent; null if there is none yet.
  const PolicyVersion* NewestOfOther(const TrainedPolicy& policy) const;
  void AddPlayers(const TrainedPolicy& policy, const PolicyVersion& other,
                  CollectorTask* task) const;
  // Names the task of a new policy. The first policy keeps its usual names; the second is the
  // opponent.
  void NameAgainstOpponent(LearnerTask* task) const;
  // The time until eval_interval has passed since the policy's last evaluation began; not above 0
  // if none has begun.
  absl::Duration UntilNextEvaluation(const TrainedPolicy& policy) const;
  void ReleaseCollectorTask(const CollectorTask& task);
  void AddCollectSetting(const TrainedPolicy& policy, CollectorTask* task) const;
  // Notes the result of an evaluation, which must have returns.
  void NoteEvaluation(const CollectorTask& task, const CollectorFinished& info);
  // Whether an evaluation, or a confirmation, reaches stop_value.
  bool ReachesStopValue(const CollectorTask& task, const CollectorFinished& info) const;
  // Keeps the version of the policy as the best one if the result says so, and if the version is
  // known.
  void NoteBest(const CollectorTask& task, const CollectorFinished& info, TrainedPolicy* policy);
  void NoteConfirmation(const CollectorFinished& info);
  // Ends the training of a policy that has converged.
  void EndTraining(const std::string& policy_id, const TrainedPolicy& policy);
  // Counts the result of a collecting task, and writes a measurement if one is due.
  void NoteCollected(const CollectorTask& task, const CollectorFinished& info);
  // `kind` is "collector", "evaluator" or "confirmation".
  void Measure(absl::string_view kind, const TrainedPolicy& policy, const CollectorFinished& info);
  // Returns the metrics of a result; with reward_... only if an episode was finished.
  NamedValues MetricsOf(bool eval_flag, const TrainedPolicy& policy,
                        const CollectorFinished& info) const;
  // The time since the first coordinator of the run made a commander.
  int64_t RunNanos() const { return deps_.clock->MonotonicNanos() - made_nanos_; }
  bool trains_several() const { return options_.learner_task_space > 1; }

  const Options options_;
  CommandMode* const policy_;
  const ComponentDeps deps_;
  int64_t made_nanos_;
  TaskSpace collector_space_;
  TaskSpace learner_space_;
  // In lockstep: the version of the policy for which the last tasks were given, and the number of
  // these tasks.
  uint64_t round_version_ = 0;
  int round_tasks_ = 0;
  SoloCommanderState state_;
  absl::Status status_;
  std::map<std::string, Unmeasured> unmeasured_;  // by policy_id
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_SOLO_COMMANDER_H_
