// The serial off-policy run: one process that collects, learns and evaluates in turns until the
// policy is good enough.
//
//     commander ──settings──► collector ──segments──► buffer ──batches──► learner
//         ▲                      ▲  every eval_freq iterations: evaluator ──► stop, ckpt_best
//         └── env steps, iterations, shared networks ────────────────────────────┘
//
// The loop of the original's serial_entry.py, with the same order of phases; its safe points are
// between two of them.
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
#include "ding_worker/metrics/component.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/registry.h"

namespace ding {

struct SerialOptions {
  std::string exp_dir;  // of the run; exists
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
  const Clock* clock = Clock::Real();
  // Told after every round how far the run is.
  std::function<void(const ProgressState&)> progress = [](const ProgressState&) {};
  // Asked at every safe point: whether to save `ckpt_interrupt` and end.
  std::function<bool()> interrupted = [] { return false; };
};

struct SerialResult {
  bool stop = false;  // the stop value was reached
  bool interrupted = false;
  int64_t env_step = 0;
  int64_t train_iter = 0;
  // Of the last evaluation: mean return and all returns; none if there was no evaluation.
  std::optional<double> eval_value;
  std::vector<double> eval_value_raw;
};

class SerialPipeline {
 public:
  // `config` as LoadExperimentConfig() returns it. kInvalidArgument names every module that refuses
  // its part of it.
  static absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(const ExperimentConfig& config,
                                                                const SerialOptions& options);

  // Once. After an error the checkpoints saved before it are intact.
  absl::Status Run(SerialResult* result);

  BaseLearner* learner() { return learner_.get(); }
  ISerialCollector* collector() { return collector_.get(); }
  IBuffer* buffer() { return buffer_.get(); }

 private:
  SerialPipeline(const ExperimentConfig& config, const SerialOptions& options);

  absl::Status CreateEnvs();
  absl::Status CreateWorkers();
  ComponentDeps Deps(absl::string_view name) const;

  absl::Status RandomCollect();
  absl::Status Loop(SerialResult* result);
  // True if the run is to end.
  absl::StatusOr<bool> Evaluate(SerialResult* result);
  absl::Status CollectAndLearn();
  absl::Status Learn(const Batch& batch);
  bool TrainBudgetSpent() const;
  bool BudgetSpent() const;
  absl::Status SaveCheckpoint(absl::string_view name) const;
  void TellProgress(const SerialResult& result);

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
  std::optional<double> best_eval_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_SERIAL_PIPELINE_H_
