// The serial run: one process that collects, learns and evaluates in turns until the policy is good
// enough.
//
//     commander ──settings──► collector ──segments──► buffer ──batches──► learner
//         ▲                      ▲   └──────── on-policy: all rows ──────────┘ ▲
//         │                      │  every eval_freq iterations: evaluator ──► stop, ckpt_best
//         └── env steps, iterations, shared networks ──────────────────────────┘
//
// With policy.collect.overlap, a second thread learns from the rows of a round while the first
// thread collects the rows of the next round:
//
//     collect 1 │ collect 2 │ collect 3 │     a line: both threads have finished; the rows of the collect go into the
//               │ learn 1   │ learn 2   │     buffer, and the parameters of the learner to the policy that collects
//
// Within a round no thread reads what the other one writes, so that equal seeds give equal bytes.
// Hooks of the learner run on the second thread. Their checkpoints have the parameters of the
// hook's own iteration.
//
// The loop follows the original's serial_entry.py and serial_entry_onpolicy.py, with the same order
// of phases; each safe point is between two rounds. The policy determines which of the two it is
// (CollectAttributes::on_policy): an on-policy run has no buffer, and learns once from everything
// that a collect gathered.
//
// Ownership: the pipeline owns all of its workers, and its second thread if it has one.
// Threads: thread-compatible; runs on the caller's thread, besides the second thread.
#ifndef DING_WORKER_WORKER_PIPELINE_SERIAL_PIPELINE_H_
#define DING_WORKER_WORKER_PIPELINE_SERIAL_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/coordinator/commander/base_serial_commander.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/run_loop.h"
#include "ding_worker/worker/pipeline/second_thread.h"
#include "ding_worker/worker/pipeline/serial_opponent.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/serial_registry.h"

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
  absl::Status SaveLastSafePoint(SerialResult* result) override {
    return loop_.SaveLastSafePoint(result);
  }
  ProgressState progress() const override { return loop_.progress(); }
  ProgressValues progress_values() const override;
  RunStatus status() const override;
  StageTimes stage_times() const override { return loop_.stage_times(); }

  ILearner* learner() override { return learner_.get(); }
  ISerialCollector* collector() { return collector_.get(); }
  // Null in an on-policy run.
  IBuffer* buffer() { return buffer_.get(); }
  // Null unless the config has an opponent.
  SerialOpponent* opponent() { return opponent_.get(); }
  RunCheckpoints* checkpoints() { return loop_.checkpoints(); }

 private:
  SerialPipeline(const ExperimentConfig& config, const SerialOptions& options);

  absl::Status CreateEnvs();
  absl::Status CreateWorkers();
  // Creates buffer_, or appends a problem for everything in the config that an on-policy run cannot
  // do.
  void CreateBuffer(std::vector<std::string>* problems);
  // Makes the collector, and the opponent if the config has one.
  void CreateCollector(std::vector<std::string>* problems);
  // Makes the parts that only an overlapped run has, if the run is overlapped.
  void CreateOverlap(std::vector<std::string>* problems);
  // Appends a problem if rows that are collected at random would not have all fields of the others.
  void CheckRandomCollect(std::vector<std::string>* problems);
  ComponentDeps Deps(absl::string_view name) const { return loop_.Deps(name); }
  // The dependencies of components that an overlapped run uses on its second thread.
  ComponentDeps LearnDeps(absl::string_view name) const;
  CollectMode* collect_mode();

  int64_t env_step() const override { return collector_->envstep(); }
  int64_t position() const override { return env_step(); }
  const EnvSpec& env_spec() const override { return collector_env_->env_spec(); }
  absl::Status Begin() override;
  absl::Status EvaluateIfDue(bool at_end) override;
  absl::Status Round() override;
  const EnvManager* collecting_envs() const override { return collector_env_.get(); }
  absl::Status BeginOtherEpisodes(int64_t number) override;
  // Size and age of the buffer.
  void WriteMeasurements() override;
  std::vector<CheckpointComponent> ActingComponents() override;
  absl::Status SaveBeside(absl::string_view name) override;
  absl::Status PrepareEvaluation() override;
  std::vector<CheckpointComponent> Components() override;
  // Adds a snapshot of the buffer, unless the buffer is too large.
  absl::Status AddSnapshots(std::vector<CheckpointComponent>* components) override;
  absl::Status LoadComponents(const CheckpointReader& checkpoint) override;

  // The replay buffers of a resume point, by component.
  std::vector<std::pair<std::string, IBuffer*>> Buffers();
  absl::Status RandomCollect();
  absl::Status OverlappedRound();
  // Copies the parameters of the policy that learns to the policy that collects.
  absl::Status PublishModel();
  CollectOptions NextCollect();
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options);
  absl::Status Push(const SegmentBatch& collected);
  // `env_step` counts the env steps of which the learner knows. Called on the second thread if
  // there is one.
  absl::Status LearnFromBuffer(int64_t env_step);
  absl::Status Learn(const Batch& batch, int64_t env_step);

  const ExperimentConfig config_;
  const SerialOptions options_;
  // Members depend on earlier ones, and so are destroyed in reverse order.
  std::unique_ptr<EnvManager> collector_env_;
  std::unique_ptr<EnvManager> evaluator_env_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Policy> acting_policy_;     // the one that collects; null: that is policy_
  std::unique_ptr<SerialOpponent> opponent_;  // null: there is none
  std::unique_ptr<IBuffer> buffer_;
  std::unique_ptr<ILearner> learner_;
  std::unique_ptr<ISerialCollector> collector_;
  std::unique_ptr<ISerialEvaluator> evaluator_;
  std::unique_ptr<ISerialEvaluator> confirmer_;  // null: nothing is confirmed
  std::unique_ptr<BaseSerialCommander> commander_;
  RunLoop loop_;

  absl::Status last_refused_draw_;  // the buffer's last refusal of a draw
  NamedValues collect_settings_;    // with which the last collect was made
  // How many train iterations before its draw the rows of the last batch were collected, on
  // average.
  std::optional<double> data_age_;
  int64_t rows_drawn_ = 0;  // by this process

  // The parts that only an overlapped run has.
  std::shared_ptr<HoldingSink> learn_metrics_;
  // What the envs that collect had learned when the round began; empty if they learn nothing, and
  // between rounds.
  StateSnapshot env_statistics_;
  bool has_new_rows_ = false;  // in the buffer, from which nothing was learned yet
  std::unique_ptr<SecondThread> second_thread_;  // last: it uses the others
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_SERIAL_PIPELINE_H_
