// The serial run: one process that collects, learns and evaluates in turns until the policy is good
// enough.
//
//     commander ──settings──► collector ──segments──► buffer ──batches──► learner
//         ▲                      ▲   └──────── on-policy: all rows ──────────┘ ▲
//         │                      │  every eval_freq iterations: evaluator ──► stop, ckpt_best
//         └── env steps, iterations, shared networks ──────────────────────────┘
//
// The loops of the original's serial_entry.py and serial_entry_onpolicy.py, with the same order of
// phases; its safe points are between two of them. Which of the two it is, the policy decides
// (CollectAttributes::on_policy): an on-policy run has no buffer, and learns once from all that a
// collect gave.
//
// Ownership: the pipeline owns all of its workers.
// Threads:   thread-compatible; runs on the caller's thread.
#ifndef DING_WORKER_WORKER_SERIAL_PIPELINE_H_
#define DING_WORKER_WORKER_SERIAL_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/coordinator/base_serial_commander.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/registry.h"
#include "ding_worker/worker/run_checkpoints.h"

namespace ding {

struct SerialOptions {
  std::string exp_dir;  // of the run; exists
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
  const Clock* clock = Clock::Real();
  // Told after every round how far the run is.
  std::function<void(const ProgressState&)> progress = [](const ProgressState&) {};
  // Asked at every safe point: whether to save `ckpt_interrupt` and end.
  std::function<bool()> interrupted = [] { return false; };
  // Adds to a resume point's manifest what the program needs beside the pipeline's state. A resume
  // point whose description fails is not written.
  std::function<absl::Status(CheckpointInfo*)> describe = [](CheckpointInfo*) {
    return absl::OkStatus();
  };
};

struct SerialResult {
  bool stop = false;  // the stop value was reached
  bool interrupted = false;
  int64_t env_step = 0;
  int64_t train_iter = 0;
  // Of the last evaluation: mean return and all returns; none if there was no evaluation.
  std::optional<double> eval_value;
  std::vector<double> eval_value_raw;
  // Of the whole run: also before it was resumed.
  double wall_seconds = 0;
};

class SerialPipeline {
 public:
  // `config` as LoadExperimentConfig() returns it. kInvalidArgument names every module that refuses
  // its part of it.
  static absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(const ExperimentConfig& config,
                                                                const SerialOptions& options);

  // Takes the state of a resume point, so that Run() goes on from there. The config is that of the
  // run it was written by (CheckSameExperiment). After an error the pipeline is of no use.
  //   kInvalidArgument  it was written by other modules or another env; the component is named
  absl::Status Resume(const CheckpointReader& checkpoint);

  // Once. After an error the checkpoints saved before it are intact.
  absl::Status Run(SerialResult* result);

  BaseLearner* learner() { return learner_.get(); }
  ISerialCollector* collector() { return collector_.get(); }
  // Null in an on-policy run.
  IBuffer* buffer() { return buffer_.get(); }
  RunCheckpoints* checkpoints() { return checkpoints_.get(); }

 private:
  SerialPipeline(const ExperimentConfig& config, const SerialOptions& options);

  absl::Status CreateEnvs();
  absl::Status CreateWorkers();
  // Fills buffer_, or says what of the config an on-policy run cannot do.
  void CreateBuffer(std::vector<std::string>* problems);
  ComponentDeps Deps(absl::string_view name) const;

  absl::Status Begin();
  absl::Status RandomCollect();
  absl::Status Loop();
  // True if the run is to end.
  absl::StatusOr<bool> Evaluate();
  absl::Status CollectAndLearn();
  absl::Status LearnFromBuffer(const SegmentBatch& collected);
  absl::Status Learn(const Batch& batch);
  bool TrainBudgetSpent() const;
  bool BudgetSpent() const;
  bool StopValueReached() const;
  double WallSeconds() const { return earlier_seconds_ + run_timer_.Seconds(); }
  absl::Status SaveCheckpoint(absl::string_view name);
  // One that fails is a warning: the run may still come to its end.
  void SaveResumePointIfDue();
  absl::Status SaveResumePoint();
  // Snapshots of everything; of the buffer only if it is not too large.
  absl::StatusOr<std::vector<CheckpointComponent>> TakeSnapshots();
  absl::Status AddBufferSnapshot(std::vector<CheckpointComponent>* components);
  absl::Status SaveRunState(StateWriter* writer) const;
  absl::Status LoadRunState(StateReader* reader);
  void TellProgress();

  const ExperimentConfig config_;
  const SerialOptions options_;
  // In the order of their dependence: destroyed from the last to the first.
  std::unique_ptr<EnvManager> collector_env_;
  std::unique_ptr<EnvManager> evaluator_env_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<IBuffer> buffer_;
  std::unique_ptr<BaseLearner> learner_;
  std::unique_ptr<ISerialCollector> collector_;
  std::unique_ptr<ISerialEvaluator> evaluator_;
  std::unique_ptr<BaseSerialCommander> commander_;
  std::unique_ptr<RunCheckpoints> checkpoints_;

  const Timer run_timer_;
  Timer resume_point_timer_;    // since the last one
  double earlier_seconds_ = 0;  // of the run before it was resumed
  bool resumed_ = false;
  absl::Status last_refused_draw_;  // by the buffer
  // The state of the run beside its workers'.
  int64_t rounds_ = 0;
  int64_t last_eval_iter_ = 0;
  SerialResult result_;
  std::optional<double> best_eval_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_SERIAL_PIPELINE_H_
