// The serial run: one process that collects, learns and evaluates in turns until the policy is good
// enough.
//
//     commander ──settings──► collector ──segments──► buffer ──batches──► learner
//         ▲                      ▲   └──────── on-policy: all rows ──────────┘ ▲
//         │                      │  every eval_freq iterations: evaluator ──► stop, ckpt_best
//         └── env steps, iterations, shared networks ──────────────────────────┘
//
// The loop follows the original's serial_entry.py and serial_entry_onpolicy.py, with the same order
// of phases; each safe point is between two rounds. The policy determines which of the two it is
// (CollectAttributes::on_policy): an on-policy run has no buffer, and learns once from everything
// that a collect gathered.
//
// Ownership: the pipeline owns all of its workers.
// Threads:   thread-compatible; runs on the caller's thread.
#ifndef DING_WORKER_WORKER_SERIAL_RUN_SERIAL_PIPELINE_H_
#define DING_WORKER_WORKER_SERIAL_RUN_SERIAL_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/coordinator/commander/base_serial_commander.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/registry.h"
#include "ding_worker/worker/run/run_checkpoints.h"
#include "ding_worker/worker/serial_run/pipeline.h"
#include "ding_worker/worker/serial_run/run_loop.h"

namespace ding {

class SerialPipeline : public Pipeline, private RunWork {
 public:
  // `config` is one that LoadExperimentConfig() returned. kInvalidArgument names every module that
  // refuses its part of the config.
  static absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(const ExperimentConfig& config,
                                                                const SerialOptions& options);

  absl::Status Resume(const CheckpointReader& checkpoint) override {
    return loop_.Resume(checkpoint);
  }
  absl::Status Run(SerialResult* result) override;
  ProgressState progress() const override { return loop_.progress(); }
  ProgressValues progress_values() const override;

  ILearner* learner() override { return learner_.get(); }
  ISerialCollector* collector() { return collector_.get(); }
  // Null in an on-policy run.
  IBuffer* buffer() { return buffer_.get(); }
  RunCheckpoints* checkpoints() { return loop_.checkpoints(); }

 private:
  SerialPipeline(const ExperimentConfig& config, const SerialOptions& options);

  absl::Status CreateEnvs();
  absl::Status CreateWorkers();
  // Creates buffer_, or appends a problem for everything in the config that an on-policy run cannot
  // do.
  void CreateBuffer(std::vector<std::string>* problems);
  // Appends a problem if rows that are collected at random would not have all fields of the others.
  void CheckRandomCollect(std::vector<std::string>* problems);
  ComponentDeps Deps(absl::string_view name) const { return loop_.Deps(name); }
  absl::Status SaveCheckpoint(absl::string_view name) { return loop_.SaveCheckpoint(name); }

  int64_t env_step() const override { return collector_->envstep(); }
  int64_t position() const override { return env_step(); }
  const EnvSpec& env_spec() const override { return collector_env_->env_spec(); }
  absl::Status Begin() override;
  absl::Status EvaluateIfDue() override;
  absl::Status Round() override;
  // Size and age of the buffer.
  void WriteMeasurements() override;
  std::vector<CheckpointComponent> ActingComponents() override;
  absl::Status PrepareEvaluation() override;
  std::vector<CheckpointComponent> Components() override;
  // Adds a snapshot of the buffer, unless the buffer is too large.
  absl::Status AddSnapshots(std::vector<CheckpointComponent>* components) override;
  absl::Status LoadComponents(const CheckpointReader& checkpoint) override;

  absl::Status RandomCollect();
  absl::Status LearnFromBuffer(const SegmentBatch& collected);
  absl::Status Learn(const Batch& batch);

  const ExperimentConfig config_;
  const SerialOptions options_;
  // Members depend on earlier ones, and so are destroyed in reverse order.
  std::unique_ptr<EnvManager> collector_env_;
  std::unique_ptr<EnvManager> evaluator_env_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<IBuffer> buffer_;
  std::unique_ptr<ILearner> learner_;
  std::unique_ptr<ISerialCollector> collector_;
  std::unique_ptr<ISerialEvaluator> evaluator_;
  std::unique_ptr<ISerialEvaluator> confirmer_;  // null: nothing is confirmed
  std::unique_ptr<BaseSerialCommander> commander_;
  RunLoop loop_;

  absl::Status last_refused_draw_;  // the buffer's last refusal of a draw
  NamedValues collect_settings_;    // with which the last collect was made
  // How many train iterations before its draw the rows of the last batch were collected, on average.
  std::optional<double> data_age_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_SERIAL_RUN_SERIAL_PIPELINE_H_
