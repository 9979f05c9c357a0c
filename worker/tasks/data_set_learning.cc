#include "ding_worker/worker/tasks/data_set_learning.h"

#include <optional>

#include "absl/memory/memory.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/setup/supervised_setup.h"
#include "ding_worker/worker/tasks/parallel_envs.h"

namespace ding {
namespace {

// Components of a checkpoint, as in the resume points of a serial run.
constexpr char kData[] = "data_set";
constexpr char kMetricEvaluator[] = "metric_evaluator";

constexpr char kChecksum[] = "checksum";
// Before the hooks that save and publish, after those that load a checkpoint and join a group.
constexpr int kJudgePriority = 60;

}  // namespace

absl::StatusOr<EnvSpec> SpecOfDataSetRun(const ExperimentConfig& config, const Clock* clock,
                                         const EnvPlace& place, DataSet* data) {
  EnvSpec env;
  if (Evaluates(config)) {
    DING_ASSIGN_OR_RETURN(env, SpecOfEnv(config, clock, place));
  }
  DING_ASSIGN_OR_RETURN(*data, LoadDataSetOf(config, &env));
  return env;
}

class DataSetLearning::JudgeHook : public LearnerHook {
 public:
  JudgeHook(HookPosition position, DataSetLearning* judge)
      : LearnerHook("metric_evaluator", kJudgePriority, position), judge_(*judge) {}
  absl::Status Call(LearnerView* learner) override { return judge_.EvaluateIfDue(learner); }

 private:
  DataSetLearning& judge_;
};

absl::StatusOr<std::unique_ptr<DataSetLearning>> DataSetLearning::Create(
    const ExperimentConfig& config, DataSet data) {
  auto made = absl::WrapUnique(new DataSetLearning(config, std::move(data)));
  DING_ASSIGN_OR_RETURN(made->epochs_, EpochsOf(config, made->data_));
  // The rows are loaded before the learner joins a group, which would wait for it.
  DING_RETURN_IF_ERROR(made->epochs_->Next().status());
  DING_ASSIGN_OR_RETURN(made->metric_, MetricOf(config, made->data_));
  return made;
}

absl::StatusOr<Batch> DataSetLearning::BatchOf(int64_t train_iter, int rank, int world_size) {
  epochs_->SkipTo(train_iter);
  DING_ASSIGN_OR_RETURN(Batch batch, epochs_->Next());
  if (world_size == 1 || batch.rows() < world_size) return batch;
  const int64_t begin = batch.rows() * rank / world_size;
  const int64_t end = batch.rows() * (rank + 1) / world_size;
  return batch.Slice(begin, end - begin);
}

absl::Status DataSetLearning::Judge(EvalMode* policy, ILearner* learner, ComponentDeps deps,
                                    const std::string& checkpoint) {
  checkpoint_ = checkpoint;
  deps.name = kMetricEvaluator;
  DING_ASSIGN_OR_RETURN(evaluator_,
                        create_metric_evaluator(config_.policy().eval().metric_evaluator(),
                                                data_.held_out.get(), metric_.get(), policy, deps));
  for (const HookPosition position : {HookPosition::kBeforeRun, HookPosition::kAfterIter}) {
    learner->RegisterHook(std::make_shared<JudgeHook>(position, this));
  }
  return absl::OkStatus();
}

std::vector<CheckpointComponent> DataSetLearning::Components() {
  return {{kData, [checksum = data_.checksum](
                      StateWriter* writer) { return writer->WriteInt(kChecksum, checksum); }},
          ComponentOf(kMetricEvaluator, evaluator_.get())};
}

absl::Status DataSetLearning::Load() {
  DING_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenTrainCheckpoint(checkpoint_));
  DING_RETURN_IF_ERROR(LoadComponent(reader, kData, [this](StateReader* state) -> absl::Status {
    DING_ASSIGN_OR_RETURN(const int64_t checksum, state->ReadInt(kChecksum));
    return CheckSameDataSet(config_, data_, checksum);
  }));
  return LoadComponent(reader, kMetricEvaluator, evaluator_.get());
}

absl::Status DataSetLearning::EvaluateIfDue(LearnerView* learner) {
  const int64_t train_iter = learner->train_iter();
  if (learner->group()->rank() != 0 || !learner->at_end_of_batch()) return absl::OkStatus();
  if (!was_rank_0_ && train_iter > 0 && PathExists(checkpoint_)) DING_RETURN_IF_ERROR(Load());
  was_rank_0_ = true;
  if (!evaluator_->ShouldEval(train_iter)) return absl::OkStatus();
  EvalOptions options;
  options.save_checkpoint = [learner](absl::string_view name) {
    return learner->SaveCheckpoint(name);
  };
  options.train_iter = train_iter;
  DING_RETURN_IF_ERROR(
      CallUser("the metric evaluator", [&] { return evaluator_->Eval(options).status(); }));
  const std::optional<MetricEvalResult> last = evaluator_->last();
  if (last.has_value() && last->stop) {
    learner->run_signals()->RequestStop(
        "policy.eval.metric_evaluator.stop_value was reached, by the held-out episodes");
  }
  return absl::OkStatus();
}

}  // namespace ding
