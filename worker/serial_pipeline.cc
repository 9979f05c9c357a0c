#include "ding_worker/worker/serial_pipeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/game_spec.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/policy/random_policy.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/experiment_setup.h"
#include "ding_worker/worker/game_setup.h"
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

// A component of a resume point, in the order of loading: model and train_state before the rest
// (see LearnMode::LoadModel).
constexpr char kCollectPolicy[] = "collect_policy";
constexpr char kCollectorEnv[] = "collector_env";
constexpr char kEvaluatorEnv[] = "evaluator_env";
constexpr char kCollector[] = "collector";
constexpr char kEvaluator[] = "evaluator";
constexpr char kReplayBuffer[] = "replay_buffer";
constexpr char kRun[] = "run";
constexpr char kWallSecondsField[] = "wall_seconds";

// Adds up the bytes that it is given.
class ByteCounter : public StateWriter {
 public:
  absl::Status Write(absl::string_view, DType, absl::Span<const int64_t>,
                     absl::Span<const absl::string_view> parts) override {
    for (const absl::string_view part : parts) bytes_ += static_cast<int64_t>(part.size());
    return absl::OkStatus();
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

// Copies what each component would save.
absl::StatusOr<std::vector<CheckpointComponent>> CopyAll(
    std::vector<CheckpointComponent> components) {
  for (CheckpointComponent& component : components) {
    DING_ASSIGN_OR_RETURN(component.save, CopyState(component.save));
  }
  return components;
}

// Hands the component of that name to `load`.
template <typename F>
absl::Status LoadComponent(const CheckpointReader& checkpoint, absl::string_view name, F load) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> reader, checkpoint.Component(name));
  return Annotate(load(reader.get()), absl::StrCat("resume point, ", name));
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
    : config_(config),
      options_(options),
      checkpoints_(std::make_unique<RunCheckpoints>(options.exp_dir)),
      run_timer_(options.clock),
      resume_point_timer_(options.clock) {}

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
  Keep(MakeEvaluatorEnvManager(config_, config_.env().evaluator_env_num(), options_.clock),
       "evaluator envs", &evaluator_env_, &problems);
  DING_RETURN_IF_ERROR(Problems(problems));
  DING_RETURN_IF_ERROR(CheckSamePlayer(collector_env_->env_spec(), evaluator_env_->env_spec()));
  DING_RETURN_IF_ERROR(
      collector_env_->Seed(Rng::DeriveSeed(config_.seed(), "collector_env"), /*dynamic=*/true));
  // The same episodes in every evaluation, so that their results can be compared.
  return evaluator_env_->Seed(Rng::DeriveSeed(config_.seed(), "evaluator_env"), /*dynamic=*/false);
}

absl::Status SerialPipeline::CreateWorkers() {
  std::vector<std::string> problems;
  const PolicySection& section = config_.policy();
  Keep(create_policy(
           MakePolicyConfig(config_),
           MakePolicyContext(config_, PlayerSpec(collector_env_->env_spec()), PolicyModes())),
       "policy", &policy_, &problems);
  DING_RETURN_IF_ERROR(Problems(problems));
  CreateBuffer(&problems);
  DING_RETURN_IF_ERROR(Problems(problems));

  Keep(create_learner(section.learn().learner(), policy_->learn_mode(), Deps("learner")), "learner",
       &learner_, &problems);
  Keep(MakeCollector(config_, collector_env_.get(), policy_->collect_mode(), Deps("collector")),
       "collector", &collector_, &problems);
  Keep(MakeEvaluator(config_, evaluator_env_.get(), policy_->eval_mode(), Deps("evaluator")),
       "evaluator", &evaluator_, &problems);
  DING_RETURN_IF_ERROR(Problems(problems));
  learner_->set_checkpoint_fn([this](absl::string_view name) { return SaveCheckpoint(name); });
  commander_ = std::make_unique<BaseSerialCommander>(learner_.get(), collector_.get(),
                                                     policy_->command_mode());
  return absl::OkStatus();
}

void SerialPipeline::CreateBuffer(std::vector<std::string>* problems) {
  const PolicySection& section = config_.policy();
  if (!policy_->collect_mode()->attributes().on_policy) {
    Keep(create_buffer(section.other().replay_buffer(), Deps("replay_buffer")), "replay buffer",
         &buffer_, problems);
    return;
  }
  const auto refuse = [&](absl::string_view field, int64_t found, int64_t expected) {
    if (found == expected) return;
    problems->push_back(absl::StrCat("policy.", field, " is ", found, ", but '", section.type(),
                                     "' is on-policy, it learns once from what was collected: "
                                     "expected ",
                                     expected));
  };
  refuse("random_collect_size", section.random_collect_size(), 0);
  refuse("learn.update_per_collect", section.learn().update_per_collect(), 1);
}

absl::Status SerialPipeline::Run(SerialResult* result) {
  absl::Status status = resumed_ ? absl::OkStatus() : Begin();
  if (status.ok()) status = Loop();
  result_.env_step = collector_->envstep();
  result_.train_iter = learner_->train_iter();
  *result = result_;
  DING_RETURN_IF_ERROR(status);
  if (result_.train_iter == 0 && !last_refused_draw_.ok()) {
    LOG(WARNING) << "the run ends without any training: " << last_refused_draw_.message();
  }
  TellProgress();
  // Before the hooks, which belong to the end and not to what may follow.
  const absl::Status resume_point = SaveResumePoint();
  DING_RETURN_IF_ERROR(result_.interrupted ? SaveCheckpoint("ckpt_interrupt")
                                           : learner_->CallHooks(HookPosition::kAfterRun));
  DING_RETURN_IF_ERROR(checkpoints_->Flush());
  result->wall_seconds = WallSeconds();
  return resume_point;
}

absl::Status SerialPipeline::Begin() {
  DING_RETURN_IF_ERROR(learner_->CallHooks(HookPosition::kBeforeRun));
  if (config_.policy().learn().resume_training() && learner_->collector_envstep() > 0) {
    collector_->set_envstep(learner_->collector_envstep());
  }
  return RandomCollect();
}

absl::Status SerialPipeline::RandomCollect() {
  const int64_t size = config_.policy().random_collect_size();
  if (size == 0) return absl::OkStatus();
  const EnvSpec player = PlayerSpec(collector_env_->env_spec());
  DING_ASSIGN_OR_RETURN(
      const std::unique_ptr<CollectMode> random,
      RandomCollectMode::Create(player.action, Rng::DeriveSeed(config_.seed(), "random_collect"),
                                policy_->collect_mode()->attributes(), player.observation));
  DING_RETURN_IF_ERROR(collector_->ResetPolicy(random.get()));
  CollectOptions options;
  options.target = size;
  options.record_episodes = false;
  DING_ASSIGN_OR_RETURN(const SegmentBatch data, collector_->Collect(options));
  DING_RETURN_IF_ERROR(buffer_->Push(data, /*cur_collector_envstep=*/0));
  return collector_->ResetPolicy(policy_->collect_mode());
}

absl::Status SerialPipeline::Loop() {
  // A run that was resumed may have come to its end before; its stop value may have changed.
  result_.stop = StopValueReached();
  while (!result_.stop && !BudgetSpent()) {
    if (options_.interrupted()) {
      result_.interrupted = true;
      return absl::OkStatus();
    }
    SaveResumePointIfDue();
    if (evaluator_->ShouldEval(learner_->train_iter())) {
      DING_ASSIGN_OR_RETURN(const bool stop, Evaluate());
      if (stop) return absl::OkStatus();
    }
    DING_RETURN_IF_ERROR(CollectAndLearn());
    ++rounds_;
    TellProgress();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SerialPipeline::Evaluate() {
  EvalOptions options;
  options.save_checkpoint = [this](absl::string_view name) { return SaveCheckpoint(name); };
  options.train_iter = learner_->train_iter();
  options.envstep = collector_->envstep();
  DING_ASSIGN_OR_RETURN(const EvalResult eval, evaluator_->Eval(options));
  last_eval_iter_ = learner_->train_iter();
  result_.eval_value = eval.mean_return;
  result_.eval_value_raw = eval.episode_return;
  result_.stop = eval.stop;
  best_eval_ = std::max(best_eval_.value_or(eval.mean_return), eval.mean_return);
  return eval.stop;
}

bool SerialPipeline::StopValueReached() const {
  return result_.eval_value.has_value() && last_eval_iter_ > 0 &&
         *result_.eval_value >= config_.env().stop_value();
}

absl::Status SerialPipeline::CollectAndLearn() {
  CollectOptions options;
  options.train_iter = learner_->train_iter();
  options.policy_settings = commander_->Step();
  DING_ASSIGN_OR_RETURN(const SegmentBatch data, collector_->Collect(options));
  return buffer_ == nullptr ? Learn(data.rows) : LearnFromBuffer(data);
}

absl::Status SerialPipeline::LearnFromBuffer(const SegmentBatch& collected) {
  const absl::Status pushed = buffer_->Push(collected, collector_->envstep());
  if (absl::IsUnavailable(pushed)) {  // More rows than the buffer's rate control lets in.
    LOG_FIRST_N(WARNING, 1) << "rows are dropped: " << pushed.message();
  } else {
    DING_RETURN_IF_ERROR(pushed);
  }
  const LearnSection& learn = config_.policy().learn();
  for (int64_t i = 0; i < learn.update_per_collect() && !TrainBudgetSpent(); ++i) {
    const absl::StatusOr<Batch> batch = buffer_->Sample(learn.batch_size(), learner_->train_iter());
    if (absl::IsFailedPrecondition(batch.status())) {  // Too few rows yet: collect more first.
      LOG_FIRST_N(INFO, 1) << "no training in this round: " << batch.status().message();
      last_refused_draw_ = batch.status();
      return absl::OkStatus();
    }
    DING_RETURN_IF_ERROR(batch.status());
    DING_RETURN_IF_ERROR(Learn(*batch));
  }
  return absl::OkStatus();
}

absl::Status SerialPipeline::Learn(const Batch& batch) {
  DING_RETURN_IF_ERROR(learner_->Train(batch, collector_->envstep(), commander_->LearnSettings()));
  if (buffer_ == nullptr || !config_.policy().priority()) return absl::OkStatus();
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

absl::Status SerialPipeline::SaveCheckpoint(absl::string_view name) {
  CheckpointInfo info = LearnerCheckpointInfo(*learner_);
  DescribeRun(config_, collector_env_->env_spec(), &info);
  DING_ASSIGN_OR_RETURN(std::vector<CheckpointComponent> components,
                        CopyAll(LearnerComponents(*learner_)));
  return checkpoints_->Save(name, std::move(info), std::move(components));
}

void SerialPipeline::SaveResumePointIfDue() {
  const ResumeSection& resume = config_.resume();
  const bool by_rounds =
      resume.period_rounds() > 0 && rounds_ > 0 && rounds_ % resume.period_rounds() == 0;
  // What is due by time may wait for the disk.
  const bool by_time = resume.period_seconds() > 0 &&
                       resume_point_timer_.Seconds() >= resume.period_seconds() &&
                       checkpoints_->idle();
  if (!by_rounds && !by_time) return;
  const absl::Status status = SaveResumePoint();
  if (!status.ok()) {
    LOG(WARNING) << "no resume point at env step " << collector_->envstep()
                 << ", the run goes on: " << status.message();
  }
}

absl::Status SerialPipeline::SaveResumePoint() {
  if (config_.resume().period_seconds() == 0 && config_.resume().period_rounds() == 0) {
    return absl::OkStatus();
  }
  CheckpointInfo info = LearnerCheckpointInfo(*learner_);
  info.fields["env_step"] = absl::StrCat(collector_->envstep());
  info.fields[kWallSecondsField] = absl::StrCat(WallSeconds());
  DescribeRun(config_, collector_env_->env_spec(), &info);
  resume_point_timer_ = Timer(options_.clock);
  DING_RETURN_IF_ERROR(options_.describe(&info));
  DING_ASSIGN_OR_RETURN(std::vector<CheckpointComponent> components, TakeSnapshots());
  checkpoints_->SaveResumePoint(collector_->envstep(), std::move(info), std::move(components));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointComponent>> SerialPipeline::TakeSnapshots() {
  std::vector<CheckpointComponent> components = LearnerComponents(*learner_);
  const auto add = [&components](absl::string_view name, auto* component) {
    components.push_back({std::string(name), [component](StateWriter* writer) {
                            return component->SaveState(writer);
                          }});
  };
  add(kCollectPolicy, policy_->collect_mode());
  add(kCollectorEnv, collector_env_.get());
  add(kEvaluatorEnv, evaluator_env_.get());
  add(kCollector, collector_.get());
  add(kEvaluator, evaluator_.get());
  components.push_back({kRun, [this](StateWriter* writer) { return SaveRunState(writer); }});
  DING_ASSIGN_OR_RETURN(components, CopyAll(std::move(components)));
  if (buffer_ != nullptr) DING_RETURN_IF_ERROR(AddBufferSnapshot(&components));
  return components;
}

absl::Status SerialPipeline::AddBufferSnapshot(std::vector<CheckpointComponent>* components) {
  StateSnapshot replay = buffer_->Snapshot();
  ByteCounter size;
  DING_RETURN_IF_ERROR(replay(&size));
  if (size.bytes() > config_.resume().max_replay_bytes()) {
    LOG_FIRST_N(WARNING, 1) << "the replay buffer has " << size.bytes()
                            << " bytes, more than resume.max_replay_bytes ("
                            << config_.resume().max_replay_bytes()
                            << "): resume points are without it, and a run that is resumed begins "
                               "with an empty one";
    return absl::OkStatus();
  }
  components->push_back({kReplayBuffer, std::move(replay)});
  return absl::OkStatus();
}

absl::Status SerialPipeline::SaveRunState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("rounds", rounds_));
  DING_RETURN_IF_ERROR(writer->WriteInt("last_eval_iter", last_eval_iter_));
  DING_RETURN_IF_ERROR(writer->WriteInt("has_eval", result_.eval_value.has_value()));
  DING_RETURN_IF_ERROR(writer->WriteDouble("eval_value", result_.eval_value.value_or(0)));
  DING_RETURN_IF_ERROR(writer->WriteDouble("best_eval", best_eval_.value_or(0)));
  return writer->WriteSpan<double>("eval_value_raw", result_.eval_value_raw);
}

absl::Status SerialPipeline::LoadRunState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(rounds_, reader->ReadInt("rounds"));
  DING_ASSIGN_OR_RETURN(last_eval_iter_, reader->ReadInt("last_eval_iter"));
  DING_ASSIGN_OR_RETURN(const int64_t has_eval, reader->ReadInt("has_eval"));
  DING_ASSIGN_OR_RETURN(const double eval_value, reader->ReadDouble("eval_value"));
  DING_ASSIGN_OR_RETURN(const double best_eval, reader->ReadDouble("best_eval"));
  if (has_eval != 0) {
    result_.eval_value = eval_value;
    best_eval_ = best_eval;
  }
  DING_ASSIGN_OR_RETURN(const TensorInfo raw, reader->Info("eval_value_raw"));
  result_.eval_value_raw.resize(static_cast<size_t>(NumElements(raw.shape)));
  return reader->ReadSpan<double>("eval_value_raw", absl::MakeSpan(result_.eval_value_raw));
}

absl::Status SerialPipeline::Resume(const CheckpointReader& checkpoint) {
  const std::map<std::string, std::string>& fields = checkpoint.info().fields;
  const auto env = fields.find("env");
  if (env != fields.end() && env->second != collector_env_->env_spec().name) {
    return absl::InvalidArgumentError(absl::StrCat("the resume point is of env '", env->second,
                                                   "', expected '", collector_env_->env_spec().name,
                                                   "'"));
  }
  DING_RETURN_IF_ERROR(LoadLearnerComponents(checkpoint, learner_.get()));
  const auto load = [&checkpoint](absl::string_view name, auto* component) {
    return LoadComponent(checkpoint, name,
                         [component](StateReader* reader) { return component->LoadState(reader); });
  };
  std::vector<int> restarted;
  DING_RETURN_IF_ERROR(load(kCollectPolicy, policy_->collect_mode()));
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kCollectorEnv, [&](StateReader* reader) {
    return collector_env_->LoadState(reader, &restarted);
  }));
  std::vector<int> evaluators_restarted;  // Evaluations begin new episodes anyway.
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kEvaluatorEnv, [&](StateReader* reader) {
    return evaluator_env_->LoadState(reader, &evaluators_restarted);
  }));
  DING_RETURN_IF_ERROR(load(kCollector, collector_.get()));
  if (!restarted.empty()) {
    LOG(WARNING) << "envs " << absl::StrJoin(restarted, ", ")
                 << " cannot save their state: they begin new episodes, the run goes on inexactly";
    DING_RETURN_IF_ERROR(collector_->DropEpisodes(restarted));
  }
  DING_RETURN_IF_ERROR(load(kEvaluator, evaluator_.get()));
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kRun,
                                     [this](StateReader* reader) { return LoadRunState(reader); }));
  const std::vector<std::string> names = checkpoint.Components();
  if (buffer_ == nullptr) {
    // Nothing is kept from collect to collect.
  } else if (std::find(names.begin(), names.end(), kReplayBuffer) != names.end()) {
    DING_RETURN_IF_ERROR(load(kReplayBuffer, buffer_.get()));
  } else {
    LOG(WARNING) << "the resume point is without the replay buffer: the run goes on inexactly, "
                    "with an empty one";
  }
  const auto seconds = fields.find(kWallSecondsField);
  if (seconds != fields.end() && !absl::SimpleAtod(seconds->second, &earlier_seconds_)) {
    earlier_seconds_ = 0;
  }
  resumed_ = true;
  LOG(INFO) << "resumed at env step " << collector_->envstep() << ", train iteration "
            << learner_->train_iter();
  return absl::OkStatus();
}

void SerialPipeline::TellProgress() {
  ProgressState state;
  state.env_step = collector_->envstep();
  state.train_iter = learner_->train_iter();
  state.last_eval = result_.eval_value;
  state.best_eval = best_eval_;
  options_.progress(state);
}

}  // namespace ding
