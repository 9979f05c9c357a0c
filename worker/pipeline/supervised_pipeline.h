// The supervised run: one process that learns from a file of episodes to act as recorded there.
//
//     file of episodes ──┬── to learn from ──► epochs of shuffled batches ──► learner
//                        └── held out ──► metric evaluator ──► log, stop, ckpt_best
//                            env, if the config names one ──► evaluator ──► stop, ckpt_best_return
//
// A round is one batch. Both evaluators share the networks with the learner and have periods of
// their own; each of them can end the run by its stop value. ckpt_best is the best checkpoint by
// the metric, ckpt_best_return the best one by the mean return. There are no env steps, so resume
// points are numbered by train iterations.
//
// The metric is the one that the config names. Without a name the action determines it: "accuracy"
// for categories, "action_mse" for boxes.
//
// CreatePipeline(), at the end, makes the pipeline of any serial run.
//
// Ownership: the pipeline owns all of its workers.
// Threads:   thread-compatible; runs on the caller's thread.
#ifndef DING_WORKER_WORKER_PIPELINE_SUPERVISED_PIPELINE_H_
#define DING_WORKER_WORKER_PIPELINE_SUPERVISED_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/run_loop.h"
#include "ding_worker/worker/serial_registry.h"
#include "ding_worker/worker/setup/data_set.h"

namespace ding {

class SupervisedPipeline : public Pipeline, private RunWork {
 public:
  // `config` is one that LoadExperimentConfig() returned and for which IsSupervised() holds.
  // kInvalidArgument names every module that refuses its part of the config; LoadDataSet() lists
  // the errors of the data set.
  static absl::StatusOr<std::unique_ptr<SupervisedPipeline>> Create(const ExperimentConfig& config,
                                                                    const SerialOptions& options);

  // Also returns kInvalidArgument if the data set is not the one of the resumed run.
  absl::Status Resume(const CheckpointReader& checkpoint) override {
    return loop_.Resume(checkpoint);
  }
  absl::Status Run(SerialResult* result) override;
  absl::Status SaveLastSafePoint(SerialResult* result) override {
    return loop_.SaveLastSafePoint(result);
  }
  ProgressState progress() const override { return loop_.progress(); }
  ProgressValues progress_values() const override { return ProgressValuesOf(learner_.get()); }
  RunStatus status() const override { return loop_.status(progress_values()); }
  StageTimes stage_times() const override { return loop_.stage_times(); }

  // Judges by `metric`, which must outlive the pipeline, instead of the config's metric. Call it
  // before Run() and Resume().
  absl::Status SetMetric(const IMetric* metric);

 private:
  SupervisedPipeline(const ExperimentConfig& config, const SerialOptions& options);

  absl::Status CreateEnv();
  absl::Status CreateWorkers();
  absl::Status SaveDataState(StateWriter* writer) const;
  absl::Status LoadDataState(StateReader* reader);

  ILearner* learner() override { return learner_.get(); }
  int64_t env_step() const override { return 0; }
  int64_t position() const override { return learner_->train_iter(); }
  const EnvSpec& env_spec() const override { return env_spec_; }
  absl::Status Begin() override;
  absl::Status EvaluateIfDue(bool at_end) override;
  bool Stopped() const override;
  absl::Status Round() override;
  std::vector<CheckpointComponent> Components() override;
  absl::Status LoadComponents(const CheckpointReader& checkpoint) override;

  const ExperimentConfig config_;
  const SerialOptions options_;
  // Members depend on earlier ones, and so are destroyed in reverse order.
  std::unique_ptr<EnvManager> evaluator_env_;  // null: the config names no env
  EnvSpec env_spec_;                           // of the env, or only the spaces of the data set
  DataSet data_;
  std::unique_ptr<ShuffledEpochs> epochs_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<ILearner> learner_;
  std::shared_ptr<const IMetric> metric_;
  std::unique_ptr<IMetricEvaluator> metric_evaluator_;
  int64_t metric_iter_ = -1;  // at which metric_evaluator_ has evaluated last; -1: not yet
  std::unique_ptr<ISerialEvaluator> evaluator_;  // null if there is no env
  std::unique_ptr<ISerialEvaluator> confirmer_;  // null: there is no env, or nothing is confirmed
  RunLoop loop_;
};

// Creates a SupervisedPipeline if the config has a data set, else a SerialPipeline. Returns the
// errors of their Create().
absl::StatusOr<std::unique_ptr<Pipeline>> CreatePipeline(const ExperimentConfig& config,
                                                         const SerialOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_SUPERVISED_PIPELINE_H_
