// The loop that every kind of run in one process shares: rounds until the run ends, and between
// them safe points with checkpoints and resume points.
//
//     Begin ──► ┌─► interrupted? ──► resume point, if due ──► evaluation, if due ──► round ──┐
//               └────────────────────── stoppers ◄── progress ◄──────────────────────────────┘
//     at the end: resume point, evaluation after a budget, hooks (or ckpt_interrupt)
//
// About once a second the loop also copies the whole run in memory. If an interrupt comes in the
// middle of a round or an evaluation that takes long, that copy is what the run saves: a run that
// is resumed repeats the rest.
//
// The run ends when a budget is spent, a stopper or a hook wants it, or the stop value is reached:
//
//     evaluation: a few episodes, the same each time ──► the mean reaches the stop value
//     confirmation: many fresh episodes ──► the mean minus its standard error reaches it, too ──► the run ends
//
// The best policy is the one with the highest mean. A confirmation takes the place of the
// evaluation before it.
//
// A run that ends by a budget evaluates its last policy. The resume point has the state before that
// evaluation, so that a run that goes on with a larger budget is as if it had had it from the
// beginning. Only its best policy may be the one that this evaluation has found.
//
// If a round, an evaluation or a hook fails, the learner is saved as `ckpt_exception`, with the
// parameters of the last complete iteration. Resume points are left as they are.
//
// Ownership: the pipeline owns the loop and everything that the loop is given; the pipeline's
//            workers must exist before Run() and Resume().
// Threads:   thread-compatible.
#ifndef DING_WORKER_WORKER_PIPELINE_RUN_LOOP_H_
#define DING_WORKER_WORKER_PIPELINE_RUN_LOOP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/run_speed.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"

namespace ding {

// The work of one kind of run. Pipelines implement it.
class RunWork {
 public:
  virtual ~RunWork() = default;

  virtual ILearner* learner() = 0;
  virtual int64_t env_step() const = 0;
  // The number in the names of resume points, which grows from round to round.
  virtual int64_t position() const = 0;
  // The env that collects. Checkpoints hold its name and spaces. Without such an env, the name is
  // empty and the spaces are the spaces of the data set.
  virtual const EnvSpec& env_spec() const = 0;

  // Called before the first round of a run that is not resumed.
  virtual absl::Status Begin() = 0;
  // Evaluates by RunLoop::Evaluate(), if an evaluation is due; at the end of the run, if the policy
  // has not been evaluated.
  virtual absl::Status EvaluateIfDue(bool at_end) = 0;
  // Whether an evaluation has ended the run for another reason than the mean return.
  virtual bool Stopped() const { return false; }
  virtual absl::Status Round() = 0;
  // The envs that collect; null: none do.
  virtual const EnvManager* collecting_envs() const { return nullptr; }
  // Makes the envs that collect begin episodes of other seeds, which depend on the position and
  // `number`.
  virtual absl::Status BeginOtherEpisodes(int64_t /*number*/) { return absl::OkStatus(); }
  // Writes further metrics, about once a second and at the end of the run.
  virtual void WriteMeasurements() {}

  // Parts of every checkpoint besides the learner's parts: the policy needs them to act.
  virtual std::vector<CheckpointComponent> ActingComponents() { return {}; }
  // Saves what belongs beside the checkpoint `name`.
  virtual absl::Status SaveBeside(absl::string_view /*name*/) { return absl::OkStatus(); }
  // Gives the envs that evaluate the statistics of the envs that collect.
  virtual absl::Status PrepareEvaluation() { return absl::OkStatus(); }

  // The parts of a resume point other than learner and loop. Components() are copied when the
  // resume point is taken; AddSnapshots() adds parts that are already snapshots.
  virtual std::vector<CheckpointComponent> Components() = 0;
  virtual absl::Status AddSnapshots(std::vector<CheckpointComponent>* /*components*/) {
    return absl::OkStatus();
  }
  // Restores these parts. The model and the train state have been loaded before.
  virtual absl::Status LoadComponents(const CheckpointReader& checkpoint) = 0;
};

// How a run evaluates by playing.
struct PlayedEvaluations {
  ISerialEvaluator* evaluator = nullptr;
  // Plays the fresh episodes of confirmations; null: nothing is confirmed.
  ISerialEvaluator* confirmer = nullptr;
  EnvManager* envs = nullptr;  // of both
  std::string best;            // the checkpoint of the best policy
  bool has_env_steps = true;   // whether logs are over env steps, too
};

// A copy of a run between two rounds.
struct SafePoint {
  int64_t position = 0;
  CheckpointInfo info;
  std::vector<CheckpointComponent> acting;  // of every checkpoint
  std::vector<CheckpointComponent> rest;    // a resume point has these, too
  SerialResult result;                      // if the run ended here
};

class RunLoop {
 public:
  // All arguments must outlive the loop.
  RunLoop(const ExperimentConfig& config, const SerialOptions& options, RunWork* work);

  // Call each of these two at most once, before Run() and Resume(). Without UseEvaluations(), the
  // run does not evaluate by playing. What `evaluations` refers to must outlive the loop.
  void UseEvaluations(PlayedEvaluations evaluations) { played_ = std::move(evaluations); }
  // Makes the stoppers of the config. Whether there are evaluations need not be set.
  absl::Status CreateStoppers(StopperDeps deps);

  // These three implement the methods of Pipeline with the same names.
  absl::Status Resume(const CheckpointReader& checkpoint);
  absl::Status Run(SerialResult* result);
  absl::Status SaveLastSafePoint(SerialResult* result) ABSL_LOCKS_EXCLUDED(safe_mutex_);
  ProgressState progress() const;
  StageTimes stage_times() const { return speed_.stages(); }
  // Without the run's buffer. `shown` are the values of the progress.
  RunStatus status(const ProgressValues& shown) const;

  // Dependencies with which workers are created; `name` is the worker's name.
  ComponentDeps Deps(absl::string_view name) const;
  // Whether the run may take another batch: its budget is not spent, and no hook wants it to end.
  bool MayTrain() const;
  // Whether `batches` more use up the budget of train iterations, if each is one.
  bool TrainBudgetSpentAfter(int64_t batches) const;
  bool EnvStepsSpent() const;
  // Evaluates by playing, and confirms the result if it reaches the stop value. Each evaluation has
  // the same episodes, which differ from each other, so that results can be compared.
  absl::Status Evaluate();
  // Whether the run evaluates by playing, but has not evaluated this policy.
  bool LacksEvaluation() const;
  absl::Status SaveCheckpoint(absl::string_view name) { return SaveCheckpoint(name, {}); }
  // Writes the metrics so far, so that others can read them. An error is a warning.
  void FlushMetrics();

  // The result of the run so far.
  SerialResult* result() { return &result_; }
  // Each stage of a round adds its time to it.
  RunSpeed* speed() { return &speed_; }
  RunCheckpoints* checkpoints() { return &checkpoints_; }

 private:
  static constexpr char kInterrupted[] = "it was interrupted";
  // A field of the best policy's checkpoint: the mean by which it was chosen.
  static constexpr char kBestField[] = "best_mean";

  absl::Status RunToTheEnd(SerialResult* result);
  // Tells the sinks how the run ended.
  void DescribeEnd(const absl::Status& status);
  void TellOfEnd(RunEnd end, int64_t position, const SerialResult& result, absl::string_view why);
  void WriteSpeed(bool at_end);
  absl::Status Loop();
  // Evaluates the last policy, if a budget has ended the run. Saves the resume point before.
  absl::Status EvaluateAtEnd();
  // If an env failed after this point of an earlier run, makes all envs begin other episodes: the
  // same ones would fail again.
  absl::Status LeaveFailedEpisodes();
  // The same with further fields of the manifest.
  absl::Status SaveCheckpoint(absl::string_view name,
                              const std::map<std::string, std::string>& fields);
  // Saves ckpt_exception, notes it in the result, and returns `error`, also if it cannot be saved.
  absl::Status SaveAfter(absl::Status error, SerialResult* result);
  // Ends the run for the reason `why`, unless it has one already. Does nothing if `why` is empty.
  void End(absl::string_view why);
  void EndInterrupted();
  // Called at the end of the run: without its logs there is no resume point.
  void WaitForLogs();
  // Whether `status` means that a round or an evaluation was given up.
  bool IsGivenUp(const absl::Status& status) const;
  // Saves the last safe point, and makes it the result of the run.
  absl::Status SaveSafePoint(SerialResult* result) ABSL_LOCKS_EXCLUDED(safe_mutex_);
  void TakeSafePointIfDue();
  // For evaluations: shows that the run evaluates.
  void ShowStage(absl::string_view stage);
  bool ended() const { return !result_.why.empty(); }
  // Ends the run if a budget is spent, or a stopper, a hook or the work wants it.
  void EndIfWanted();
  // Ends the run if the last evaluation and its confirmation have both reached the stop value.
  // Plays the confirmation first if it is missing.
  absl::Status EndIfSolved();
  absl::Status Confirm();
  bool StopValueReached() const;
  bool TrainBudgetSpent() const { return TrainBudgetSpentAfter(0); }
  // `evaluation` is the one that has just ended; null: none has.
  absl::Status AskStoppers(const Evaluation* evaluation);
  EvalOptions MakeEvalOptions() const;
  // Keeps the policy as the best one if its mean return, or the mean of env.best_by, is higher than
  // all before. kInvalidArgument: no evaluation yet has env.best_by.
  absl::Status SaveIfBest(const Evaluation& evaluation);
  double WallSeconds() const { return earlier_seconds_ + run_timer_.Seconds(); }
  // A resume point that cannot be saved is only a warning: the run may still come to its end.
  void SaveResumePointIfDue();
  absl::Status SaveResumePoint();
  bool KeepsResumePoints() const;
  absl::StatusOr<std::shared_ptr<const SafePoint>> TakeSafePoint();
  // What every checkpoint holds.
  std::vector<CheckpointComponent> ActingComponents();
  absl::Status SaveRunState(StateWriter* writer) const;
  absl::Status LoadRunState(StateReader* reader);
  // Learns which policy the evaluation at the end of the run that is resumed has kept as the best.
  void LoadBestOfEnd();

  const ExperimentConfig& config_;
  const SerialOptions& options_;
  RunWork& work_;
  PlayedEvaluations played_;
  RunCheckpoints checkpoints_;
  const Timer run_timer_;
  RunSpeed speed_;
  Timer resume_point_timer_;    // since the last resume point
  double earlier_seconds_ = 0;  // duration of the run before it was resumed
  bool resumed_ = false;
  // Whether the last attempt succeeded: the log has each outage once.
  bool has_resume_point_ = true;
  bool can_take_safe_points_ = true;
  // Whether there is a resume point from before the evaluation at the end of the run.
  bool has_end_point_ = false;
  bool logs_are_written_ = true;
  Timer since_safe_point_;
  absl::Duration safe_point_pause_;  // until the next one
  Timer since_shown_;                // the progress in an evaluation
  Mutex safe_mutex_;
  std::shared_ptr<const SafePoint> safe_point_ ABSL_GUARDED_BY(safe_mutex_);  // null: none yet
  bool env_failed_ = false;   // whether this run ends because an env has failed
  int64_t env_failures_ = 0;  // how often runs of this folder ended so since the resume point
  // The state of the run besides the state of its workers.
  int64_t rounds_ = 0;
  int64_t last_eval_iter_ = 0;
  SerialResult result_;
  std::optional<double> best_eval_;
  int64_t confirmations_ = 0;         // those that were completed
  int64_t confirmed_eval_iter_ = -1;  // the evaluation that the last confirmation has judged
  StopperList stoppers_;
};

// The values that the policy of the learner names for the progress of the run, averaged as in the
// log.
ProgressValues ProgressValuesOf(LearnerView* learner);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_RUN_LOOP_H_
