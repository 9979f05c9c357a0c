#include "ding_worker/worker/pipeline/supervised_pipeline.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/setup/setup_problems.h"
#include "ding_worker/worker/setup/supervised_setup.h"

namespace ding {
namespace {

constexpr char kProcess[] = "serial";  // for metrics.sink

// Components of a resume point.
constexpr char kData[] = "data_set";
constexpr char kMetricEvaluator[] = "metric_evaluator";
constexpr char kEvaluatorEnv[] = "evaluator_env";
constexpr char kEvaluator[] = "evaluator";

constexpr char kChecksum[] = "checksum";
// The run has no env steps, so no metric is written over them.
constexpr int64_t kNoEnvStep = -1;

}  // namespace

absl::StatusOr<std::unique_ptr<SupervisedPipeline>> SupervisedPipeline::Create(
    const ExperimentConfig& config, const SerialOptions& options) {
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(FindUnusedFields(config, RunKind::kSupervised)));
  const std::vector<std::string> left_out = FindLeftOutFields(config, RunKind::kSupervised);
  DING_LOG_IF(INFO, !left_out.empty())
      << "left out, since there is one process: " << absl::StrJoin(left_out, ", ");
  SerialOptions own_options = options;
  DING_RETURN_IF_ERROR(AddSinks(config, options.exp_dir, kProcess, &own_options.metrics));
  auto pipeline = std::unique_ptr<SupervisedPipeline>(new SupervisedPipeline(config, own_options));
  if (!config.env().type().empty()) DING_RETURN_IF_ERROR(pipeline->CreateEnv());
  DING_ASSIGN_OR_RETURN(pipeline->data_, LoadDataSetOf(config, &pipeline->env_spec_));
  DING_RETURN_IF_ERROR(pipeline->CreateWorkers());
  DING_LOG(INFO) << "data set " << config.data_set().path() << ": " << pipeline->data_.description;
  return pipeline;
}

SupervisedPipeline::SupervisedPipeline(const ExperimentConfig& config, const SerialOptions& options)
    : config_(config), options_(options), loop_(config_, options_, this) {}

absl::Status SupervisedPipeline::CreateEnv() {
  std::vector<std::string> problems;
  EnvsOptions videos;
  videos.video_folder = absl::StrCat(options_.exp_dir, "/videos");
  TakeOrReport(
      MakeEvaluatorEnvManager(config_, config_.env().evaluator_env_num(), options_.clock, videos),
      "evaluator envs", &evaluator_env_, &problems);
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(problems));
  DING_RETURN_IF_ERROR(RefuseEnvStatistics(*evaluator_env_));
  env_spec_ = evaluator_env_->env_spec();
  return absl::OkStatus();
}

absl::Status SupervisedPipeline::CreateWorkers() {
  std::vector<std::string> problems;
  const PolicySection& section = config_.policy();
  PolicyModes modes;
  modes.collect = false;
  TakeOrReport(MakePolicy(config_, env_spec_, modes), "policy", &policy_, &problems);
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(problems));
  DING_RETURN_IF_ERROR(CheckLearnsFromData(config_, policy_->learn_mode()));
  DING_RETURN_IF_ERROR(UseTransitions(config_, *policy_->learn_mode(), &data_));
  DING_RETURN_IF_ERROR(policy_->learn_mode()->SetData(data_.training));
  TakeOrReport(EpochsOf(config_, data_), "data set", &epochs_, &problems);
  TakeOrReport(
      create_learner(section.learn().learner(), policy_->learn_mode(), loop_.Deps("learner")),
      "learner", &learner_, &problems);
  DING_ASSIGN_OR_RETURN(metric_, MetricOf(config_, data_));
  TakeOrReport(
      create_metric_evaluator(section.eval().metric_evaluator(), data_.held_out.get(),
                              metric_.get(), policy_->eval_mode(), loop_.Deps("metric_evaluator")),
      "metric evaluator", &metric_evaluator_, &problems);
  if (evaluator_env_ != nullptr) {
    TakeOrReport(create_serial_evaluator(section.eval().evaluator(), evaluator_env_.get(),
                                         policy_->eval_mode(), loop_.Deps("evaluator")),
                 "evaluator", &evaluator_, &problems);
    TakeOrReport(MakeConfirmer(config_, evaluator_env_.get(), policy_->eval_mode(),
                               loop_.Deps("confirmation")),
                 "evaluator of confirmations", &confirmer_, &problems);
  }
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(problems));
  StopperDeps stoppers;
  if (evaluator_env_ != nullptr) {
    loop_.UseEvaluations({evaluator_.get(), confirmer_.get(), evaluator_env_.get(),
                          "ckpt_best_return", /*has_env_steps=*/false});
    stoppers.max_return = BoundsOfReturns(env_spec_).high;
  }
  DING_RETURN_IF_ERROR(loop_.CreateStoppers(stoppers));
  learner_->set_checkpoint_fn(
      [this](absl::string_view name) { return loop_.SaveCheckpoint(name); });
  return absl::OkStatus();
}

absl::Status SupervisedPipeline::SetMetric(const IMetric* metric) {
  return metric_evaluator_->ResetData(data_.held_out.get(), metric);
}

absl::Status SupervisedPipeline::Run(SerialResult* result) {
  const absl::Status status = loop_.Run(result);
  const std::optional<MetricEvalResult> last = metric_evaluator_->last();
  if (last.has_value()) result->metric = last->metric;
  return status;
}

absl::Status SupervisedPipeline::Begin() {
  return CallUser("the learner", [&] { return learner_->CallHooks(HookPosition::kBeforeRun); });
}

absl::Status SupervisedPipeline::EvaluateIfDue(bool at_end) {
  const int64_t train_iter = learner_->train_iter();
  if (at_end ? metric_iter_ != train_iter : metric_evaluator_->ShouldEval(train_iter)) {
    EvalOptions options;
    options.save_checkpoint = [this](absl::string_view name) { return loop_.SaveCheckpoint(name); };
    options.train_iter = train_iter;
    DING_RETURN_IF_ERROR(CallUser("the metric evaluator",
                                  [&] { return metric_evaluator_->Eval(options).status(); }));
    metric_iter_ = train_iter;
    loop_.FlushMetrics();
  }
  if (evaluator_ == nullptr) return absl::OkStatus();
  const bool due = at_end ? loop_.LacksEvaluation() : evaluator_->ShouldEval(train_iter);
  return due ? loop_.Evaluate() : absl::OkStatus();
}

bool SupervisedPipeline::Stopped() const {
  const std::optional<MetricEvalResult> last = metric_evaluator_->last();
  return last.has_value() && last->stop;
}

absl::Status SupervisedPipeline::Round() {
  const RunSpeed::Scope timed(loop_.speed(), RunSpeed::kLearn);
  DING_ASSIGN_OR_RETURN(const Batch batch, epochs_->Next());
  const NamedValues settings = policy_->command_mode()->GetSettingLearn(
      {{"learner_step", static_cast<double>(learner_->train_iter())}, {"envstep", 0}});
  return CallUser("the learner", [&] { return learner_->Train(batch, kNoEnvStep, settings); });
}

std::vector<CheckpointComponent> SupervisedPipeline::Components() {
  std::vector<CheckpointComponent> components = {
      {kData, [this](StateWriter* writer) { return SaveDataState(writer); }},
      ComponentOf(kMetricEvaluator, metric_evaluator_.get())};
  if (evaluator_ == nullptr) return components;
  components.push_back(ComponentOf(kEvaluatorEnv, evaluator_env_.get()));
  components.push_back(ComponentOf(kEvaluator, evaluator_.get()));
  return components;
}

absl::Status SupervisedPipeline::SaveDataState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt(kChecksum, data_.checksum));
  return epochs_->SaveState(writer);
}

absl::Status SupervisedPipeline::LoadDataState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t checksum, reader->ReadInt(kChecksum));
  DING_RETURN_IF_ERROR(CheckSameDataSet(config_, data_, checksum));
  return epochs_->LoadState(reader);
}

absl::Status SupervisedPipeline::LoadComponents(const CheckpointReader& checkpoint) {
  DING_RETURN_IF_ERROR(LoadComponent(
      checkpoint, kData, [this](StateReader* reader) { return LoadDataState(reader); }));
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kMetricEvaluator, metric_evaluator_.get()));
  if (evaluator_ == nullptr) return absl::OkStatus();
  std::vector<int> restarted;  // Evaluations begin new episodes anyway.
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kEvaluatorEnv, [&](StateReader* reader) {
    return evaluator_env_->LoadState(reader, &restarted);
  }));
  return LoadComponent(checkpoint, kEvaluator, evaluator_.get());
}

absl::StatusOr<std::unique_ptr<Pipeline>> CreatePipeline(const ExperimentConfig& config,
                                                         const SerialOptions& options) {
  if (IsSupervised(config)) return SupervisedPipeline::Create(config, options);
  return SerialPipeline::Create(config, options);
}

}  // namespace ding
