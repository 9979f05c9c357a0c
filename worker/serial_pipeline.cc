#include "ding_worker/worker/serial_pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/policy/random_policy.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/experiment_setup.h"
#include "glog/logging.h"

namespace ding {
namespace {

// Moves the value of `made` to `out`; an error joins the others, so that all are reported at once.
template <typename T>
void Keep(absl::StatusOr<T> made, absl::string_view what, T* out,
          std::vector<std::string>* problems) {
  if (made.ok()) {
    *out = *std::move(made);
  } else {
    problems->push_back(absl::StrCat(what, ": ", made.status().message()));
  }
}

absl::Status Problems(const std::vector<std::string>& problems) {
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the run cannot start:\n  ", absl::StrJoin(problems, "\n  ")));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SerialPipeline>> SerialPipeline::Create(
    const ExperimentConfig& config, const SerialOptions& options) {
  auto pipeline = std::unique_ptr<SerialPipeline>(new SerialPipeline(config, options));
  DING_RETURN_IF_ERROR(pipeline->CreateEnvs());
  DING_RETURN_IF_ERROR(pipeline->CreateWorkers());
  return pipeline;
}

SerialPipeline::SerialPipeline(const ExperimentConfig& config, const SerialOptions& options)
    : config_(config), options_(options) {}

ComponentDeps SerialPipeline::Deps(absl::string_view name) const {
  ComponentDeps deps;
  deps.metrics = options_.metrics;
  deps.clock = options_.clock;
  deps.seed = config_.seed();
  deps.exp_dir = options_.exp_dir;
  deps.name = std::string(name);
  return deps;
}

absl::Status SerialPipeline::CreateEnvs() {
  std::vector<std::string> problems;
  Keep(MakeEnvManager(config_, config_.env().collector_env_num(), options_.clock), "collector envs",
       &collector_env_, &problems);
  Keep(MakeEnvManager(config_, config_.env().evaluator_env_num(), options_.clock), "evaluator envs",
       &evaluator_env_, &problems);
  DING_RETURN_IF_ERROR(Problems(problems));
  DING_RETURN_IF_ERROR(
      collector_env_->Seed(Rng::DeriveSeed(config_.seed(), "collector_env"), /*dynamic=*/true));
  // The same episodes in every evaluation, so that their results can be compared.
  return evaluator_env_->Seed(Rng::DeriveSeed(config_.seed(), "evaluator_env"), /*dynamic=*/false);
}

absl::Status SerialPipeline::CreateWorkers() {
  std::vector<std::string> problems;
  const PolicySection& section = config_.policy();
  Keep(create_policy(MakePolicyConfig(config_),
                     MakePolicyContext(config_, collector_env_->env_spec(), PolicyModes())),
       "policy", &policy_, &problems);
  Keep(create_buffer(section.other().replay_buffer(), Deps("replay_buffer")), "replay buffer",
       &buffer_, &problems);
  DING_RETURN_IF_ERROR(Problems(problems));

  Keep(create_learner(section.learn().learner(), policy_->learn_mode(), Deps("learner")), "learner",
       &learner_, &problems);
  Keep(create_serial_collector(section.collect().collector(), collector_env_.get(),
                               policy_->collect_mode(), Deps("collector")),
       "collector", &collector_, &problems);
  Keep(create_serial_evaluator(section.eval().evaluator(), evaluator_env_.get(),
                               policy_->eval_mode(), Deps("evaluator")),
       "evaluator", &evaluator_, &problems);
  DING_RETURN_IF_ERROR(Problems(problems));
  learner_->set_checkpoint_fn([this](absl::string_view name) { return SaveCheckpoint(name); });
  commander_ = std::make_unique<BaseSerialCommander>(learner_.get(), collector_.get(),
                                                     policy_->command_mode());
  return absl::OkStatus();
}

absl::Status SerialPipeline::Run(SerialResult* result) {
  DING_RETURN_IF_ERROR(learner_->CallHooks(HookPosition::kBeforeRun));
  if (config_.policy().learn().resume_training() && learner_->collector_envstep() > 0) {
    collector_->set_envstep(learner_->collector_envstep());
  }
  DING_RETURN_IF_ERROR(RandomCollect());
  const absl::Status status = Loop(result);
  result->env_step = collector_->envstep();
  result->train_iter = learner_->train_iter();
  DING_RETURN_IF_ERROR(status);
  TellProgress(*result);
  if (result->interrupted) return SaveCheckpoint("ckpt_interrupt");
  return learner_->CallHooks(HookPosition::kAfterRun);
}

absl::Status SerialPipeline::RandomCollect() {
  const int64_t size = config_.policy().random_collect_size();
  if (size == 0) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<CollectMode> random,
                        RandomCollectMode::Create(collector_env_->env_spec().action,
                                                  Rng::DeriveSeed(config_.seed(), "random_collect"),
                                                  policy_->collect_mode()->attributes()));
  DING_RETURN_IF_ERROR(collector_->ResetPolicy(random.get()));
  CollectOptions options;
  options.target = size;
  options.record_episodes = false;
  DING_ASSIGN_OR_RETURN(const SegmentBatch data, collector_->Collect(options));
  DING_RETURN_IF_ERROR(buffer_->Push(data, /*cur_collector_envstep=*/0));
  return collector_->ResetPolicy(policy_->collect_mode());
}

absl::Status SerialPipeline::Loop(SerialResult* result) {
  while (!BudgetSpent()) {
    if (options_.interrupted()) {
      result->interrupted = true;
      return absl::OkStatus();
    }
    if (evaluator_->ShouldEval(learner_->train_iter())) {
      DING_ASSIGN_OR_RETURN(const bool stop, Evaluate(result));
      if (stop) return absl::OkStatus();
    }
    DING_RETURN_IF_ERROR(CollectAndLearn());
    TellProgress(*result);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SerialPipeline::Evaluate(SerialResult* result) {
  EvalOptions options;
  options.save_checkpoint = [this](absl::string_view name) { return SaveCheckpoint(name); };
  options.train_iter = learner_->train_iter();
  options.envstep = collector_->envstep();
  DING_ASSIGN_OR_RETURN(const EvalResult eval, evaluator_->Eval(options));
  result->eval_value = eval.mean_return;
  result->eval_value_raw = eval.episode_return;
  result->stop = eval.stop;
  best_eval_ = std::max(best_eval_.value_or(eval.mean_return), eval.mean_return);
  return eval.stop;
}

absl::Status SerialPipeline::CollectAndLearn() {
  CollectOptions options;
  options.train_iter = learner_->train_iter();
  options.policy_settings = commander_->Step();
  DING_ASSIGN_OR_RETURN(const SegmentBatch data, collector_->Collect(options));
  DING_RETURN_IF_ERROR(buffer_->Push(data, collector_->envstep()));
  const LearnSection& learn = config_.policy().learn();
  for (int64_t i = 0; i < learn.update_per_collect() && !TrainBudgetSpent(); ++i) {
    const absl::StatusOr<Batch> batch = buffer_->Sample(learn.batch_size(), learner_->train_iter());
    if (absl::IsFailedPrecondition(batch.status())) {  // Too few rows yet: collect more first.
      LOG_FIRST_N(INFO, 1) << "no training in this round: " << batch.status().message();
      return absl::OkStatus();
    }
    DING_RETURN_IF_ERROR(batch.status());
    DING_RETURN_IF_ERROR(Learn(*batch));
  }
  return absl::OkStatus();
}

absl::Status SerialPipeline::Learn(const Batch& batch) {
  DING_RETURN_IF_ERROR(learner_->Train(batch, collector_->envstep()));
  if (!config_.policy().priority()) return absl::OkStatus();
  const LearnInfo info = learner_->learn_info();
  return info.priority_info ? buffer_->Update(*info.priority_info) : absl::OkStatus();
}

bool SerialPipeline::TrainBudgetSpent() const {
  return config_.max_train_iter() > 0 && learner_->train_iter() >= config_.max_train_iter();
}

bool SerialPipeline::BudgetSpent() const {
  return TrainBudgetSpent() ||
         (config_.max_env_step() > 0 && collector_->envstep() >= config_.max_env_step());
}

absl::Status SerialPipeline::SaveCheckpoint(absl::string_view name) const {
  const std::string path = learner_->CheckpointPath(name);
  DING_RETURN_IF_ERROR(CreateDirectories(JoinPath(options_.exp_dir, "ckpt")));
  CheckpointInfo info = LearnerCheckpointInfo(*learner_);
  DescribeRun(config_, collector_env_->env_spec(), &info);
  DING_RETURN_IF_ERROR(WriteCheckpoint(path, info, LearnerComponents(*learner_)));
  LOG(INFO) << "saved checkpoint " << path;
  return absl::OkStatus();
}

void SerialPipeline::TellProgress(const SerialResult& result) {
  ProgressState state;
  state.env_step = collector_->envstep();
  state.train_iter = learner_->train_iter();
  state.last_eval = result.eval_value;
  state.best_eval = best_eval_;
  options_.progress(state);
}

}  // namespace ding
