#include "ding_worker/worker/pipeline/serial_pipeline.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/policy/random_policy.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/setup/setup_problems.h"
#include "ding_worker/worker/setup/supervised_setup.h"

namespace ding {
namespace {

constexpr char kProcess[] = "serial";              // for metrics.sink
constexpr char kReplayBuffer[] = "replay_buffer";  // in metrics

// Returns how many train iterations before `train_iter` the rows were collected, on average; none
// if the batch does not have that column.
std::optional<double> AgeOf(const Batch& batch, int64_t train_iter) {
  const std::optional<int> column = batch.spec().Find(kColumnCollectIter);
  if (!column.has_value() || batch.rows() == 0) return std::nullopt;
  int64_t sum = 0;
  for (const int64_t collect_iter : batch.column<int64_t>(*column)) sum += collect_iter;
  return static_cast<double>(train_iter) -
         static_cast<double>(sum) / static_cast<double>(batch.rows());
}

// Returns the error of a round from those of its two threads; if both have failed, it names both.
absl::Status ErrorOfRound(const absl::Status& collected, const absl::Status& learned) {
  if (collected.ok()) return learned;
  if (learned.ok()) return collected;
  return absl::Status(
      collected.code(),
      absl::StrCat(collected.message(), "; and learning at the same time: ", learned.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SerialPipeline>> SerialPipeline::Create(
    const ExperimentConfig& config, const SerialOptions& options) {
  SerialOptions own_options = options;
  DING_RETURN_IF_ERROR(AddSinks(config, options.exp_dir, kProcess, &own_options.metrics));
  auto pipeline = std::unique_ptr<SerialPipeline>(new SerialPipeline(config, own_options));
  DING_RETURN_IF_ERROR(pipeline->CreateEnvs());
  DING_RETURN_IF_ERROR(pipeline->CreateWorkers());
  return pipeline;
}

SerialPipeline::SerialPipeline(const ExperimentConfig& config, const SerialOptions& options)
    : config_(config), options_(options), loop_(config_, options_, this) {
  if (config_.policy().collect().overlap()) {
    learn_metrics_ = std::make_shared<HoldingSink>(options_.metrics);
  }
}

absl::Status SerialPipeline::CreateEnvs() {
  std::vector<std::string> problems = FindCollectProblems(config_, /*parallel=*/false);
  EnvsOptions videos;
  videos.video_folder = absl::StrCat(options_.exp_dir, "/videos");
  TakeOrReport(MakeEnvManager(config_, config_.env().collector_env_num(), options_.clock, videos),
               "collector envs", &collector_env_, &problems);
  TakeOrReport(
      MakeEvaluatorEnvManager(config_, config_.env().evaluator_env_num(), options_.clock, videos),
      "evaluator envs", &evaluator_env_, &problems);
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(problems));
  if (collector_env_->has_statistics() != evaluator_env_->has_statistics()) {
    return absl::InvalidArgumentError(
        "env.wrapper 'normalize_observation' has in_evaluation: false, expected true: the policy "
        "acts on normalized observations");
  }
  DING_RETURN_IF_ERROR(CheckSamePlayer(collector_env_->env_spec(), evaluator_env_->env_spec()));
  return collector_env_->Seed(Rng::DeriveSeed(config_.seed(), "collector_env"), /*dynamic=*/true);
}

absl::Status SerialPipeline::CreateWorkers() {
  std::vector<std::string> problems;
  const PolicySection& section = config_.policy();
  const EnvSpec player = PlayerSpec(collector_env_->env_spec());
  TakeOrReport(MakePolicy(config_, player, PolicyModes()), "policy", &policy_, &problems);
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(problems));
  DING_RETURN_IF_ERROR(CheckLearnsFromData(config_, policy_->learn_mode()));
  CreateBuffer(&problems);
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(problems));
  CreateOverlap(&problems);
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(problems));

  TakeOrReport(
      create_learner(section.learn().learner(), policy_->learn_mode(), LearnDeps("learner")),
      "learner", &learner_, &problems);
  CreateCollector(&problems);
  if (HasOpponent(config_) && opponent_ == nullptr) return StartupProblemsToStatus(problems);
  const std::shared_ptr<Policy> opponent = opponent_ == nullptr ? nullptr : opponent_->policy();
  TakeOrReport(MakeEvaluator(config_, evaluator_env_.get(), policy_->eval_mode(), Deps("evaluator"),
                             opponent),
               "evaluator", &evaluator_, &problems);
  TakeOrReport(MakeConfirmer(config_, evaluator_env_.get(), policy_->eval_mode(),
                             Deps("confirmation"), opponent),
               "evaluator of confirmations", &confirmer_, &problems);
  DING_RETURN_IF_ERROR(StartupProblemsToStatus(problems));
  loop_.UseEvaluations({evaluator_.get(), confirmer_.get(), evaluator_env_.get(), "ckpt_best"});
  StopperDeps stoppers;
  stoppers.max_return = BoundsOfReturns(evaluator_env_->env_spec()).high;
  DING_RETURN_IF_ERROR(loop_.CreateStoppers(stoppers));
  learner_->set_checkpoint_fn(
      [this](absl::string_view name) { return loop_.SaveCheckpoint(name); });
  commander_ = std::make_unique<BaseSerialCommander>(learner_.get(), collector_.get(),
                                                     policy_->command_mode());
  return absl::OkStatus();
}

void SerialPipeline::CreateBuffer(std::vector<std::string>* problems) {
  const bool on_policy = policy_->collect_mode()->attributes().on_policy;
  const RunKind kind = on_policy ? RunKind::kOnPolicy : RunKind::kSerial;
  const RunKind parallel = on_policy ? RunKind::kOnPolicyParallel : RunKind::kParallel;
  const std::vector<std::string> in_neither = FindUnusedFields(config_, kind, parallel);
  std::vector<std::string> of_parallel;
  for (std::string& problem : FindUnusedFields(config_, kind)) {
    const bool is_for_parallel =
        std::find(in_neither.begin(), in_neither.end(), problem) == in_neither.end();
    if (is_for_parallel) of_parallel.push_back(problem.substr(0, problem.find(" is ")));
    problems->push_back(std::move(problem));
  }
  if (!of_parallel.empty()) {
    problems->push_back(absl::StrCat("the config sets fields of parallel runs (",
                                     absl::StrJoin(of_parallel, ", "),
                                     "): tools/train --parallel (//worker:parallel) trains by it"));
  }
  const std::vector<std::string> left_out = FindLeftOutFields(config_, kind);
  DING_LOG_IF(INFO, !left_out.empty())
      << "left out, since there is one process: " << absl::StrJoin(left_out, ", ");
  const BufferConfig& config = config_.policy().other().replay_buffer();
  const int64_t max_episode_steps = collector_env_->env_spec().max_episode_steps;
  if (on_policy) {
    for (std::string& problem : FindSampleProblems(config_, max_episode_steps)) {
      problems->push_back(std::move(problem));
    }
    return;
  }
  TakeOrReport(create_buffer(config, LearnDeps("replay_buffer")), "replay buffer", &buffer_,
               problems);
  if (buffer_ == nullptr) return;
  for (std::string& problem : FindSequenceProblems(config_, policy_->learn_mode()->attributes(),
                                                   buffer_->draws_sequences(), max_episode_steps)) {
    problems->push_back(std::move(problem));
  }
  for (std::string& problem : FindGoalProblems(config_, collector_env_->env_spec())) {
    problems->push_back(std::move(problem));
  }
  CheckRandomCollect(problems);
}

void SerialPipeline::CreateCollector(std::vector<std::string>* problems) {
  const ComponentDeps deps = Deps("collector");
  if (!HasOpponent(config_)) {
    TakeOrReport(MakeCollector(config_, collector_env_.get(), collect_mode(), deps), "collector",
                 &collector_, problems);
    return;
  }
  TakeOrReport(SerialOpponent::Create(config_, collector_env_->env_spec(),
                                      collect_mode()->attributes(), deps),
               "opponent", &opponent_, problems);
  if (opponent_ == nullptr) return;
  std::unique_ptr<SelfPlayCollector> collector;
  TakeOrReport(
      MakeGameCollector(config_, collector_env_.get(), collect_mode(), opponent_->seat(), deps),
      "collector", &collector, problems);
  if (collector == nullptr) return;
  opponent_->UseCollector(collector.get());
  collector_ = std::move(collector);
}

void SerialPipeline::CreateOverlap(std::vector<std::string>* problems) {
  if (!config_.policy().collect().overlap()) return;
  if (policy_->collect_mode()->attributes().keeps_statistics) {
    problems->push_back(absl::StrCat("policy.collect.overlap is true, but policy '",
                                     config_.policy().type(),
                                     "' as it is configured keeps statistics of the rows that it "
                                     "collects, of which its learn mode "
                                     "on the other thread would not know: expected false"));
    return;
  }
  const EnvSpec player = PlayerSpec(collector_env_->env_spec());
  TakeOrReport(MakePolicy(config_, player, CollectModeOnly()), "policy that collects",
               &acting_policy_, problems);
  TakeOrReport(SecondThread::Start("learning"), "thread that learns", &second_thread_, problems);
}

ComponentDeps SerialPipeline::LearnDeps(absl::string_view name) const {
  ComponentDeps deps = Deps(name);
  if (learn_metrics_ != nullptr) deps.metrics = learn_metrics_;
  return deps;
}

CollectMode* SerialPipeline::collect_mode() {
  return (acting_policy_ == nullptr ? policy_ : acting_policy_)->collect_mode();
}

void SerialPipeline::CheckRandomCollect(std::vector<std::string>* problems) {
  if (config_.policy().random_collect_size() == 0) return;
  const Spec& output = *policy_->collect_mode()->output_spec();
  const int actions = PlayerSpec(collector_env_->env_spec()).action->size();
  if (output.size() == actions) return;
  problems->push_back(absl::StrCat(
      "policy.random_collect_size is ", config_.policy().random_collect_size(), ", but policy '",
      config_.policy().type(), "' stores '", output.field(actions).name,
      "' beside its actions, which a random policy does not have: expected 0"));
}

absl::Status SerialPipeline::Run(SerialResult* result) {
  const absl::Status status = loop_.Run(result);
  if (status.ok() && result->train_iter == 0 && !last_refused_draw_.ok()) {
    DING_LOG(WARNING) << "the run ends without any training: " << last_refused_draw_.message();
  }
  return status;
}

absl::Status SerialPipeline::Begin() {
  DING_RETURN_IF_ERROR(
      CallUser("the learner", [&] { return learner_->CallHooks(HookPosition::kBeforeRun); }));
  if (opponent_ != nullptr) DING_RETURN_IF_ERROR(opponent_->Begin());
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
                                collect_mode()->attributes(), player.observation));
  DING_RETURN_IF_ERROR(collector_->ResetPolicy(random.get()));
  CollectOptions options;
  options.target = size;
  options.record_episodes = false;
  if (opponent_ != nullptr) opponent_->PrepareCollect();
  options.cancelled = options_.overdue;
  DING_ASSIGN_OR_RETURN(const SegmentBatch data, collector_->Collect(options));
  DING_RETURN_IF_ERROR(buffer_->Push(data, /*cur_collector_envstep=*/0));
  if (opponent_ != nullptr) DING_RETURN_IF_ERROR(opponent_->Learn([] { return false; }));
  return collector_->ResetPolicy(collect_mode());
}

absl::Status SerialPipeline::EvaluateIfDue(bool at_end) {
  const bool due =
      at_end ? loop_.LacksEvaluation() : evaluator_->ShouldEval(learner_->train_iter());
  return due ? loop_.Evaluate() : absl::OkStatus();
}

absl::Status SerialPipeline::Round() {
  if (second_thread_ != nullptr) return OverlappedRound();
  DING_ASSIGN_OR_RETURN(const SegmentBatch data, Collect(NextCollect()));
  const RunSpeed::Scope timed(loop_.speed(), RunSpeed::kLearn);
  if (opponent_ != nullptr) {
    DING_RETURN_IF_ERROR(opponent_->Learn([this] { return loop_.MayTrain(); }));
  }
  if (buffer_ == nullptr) return Learn(data.rows, env_step());
  DING_RETURN_IF_ERROR(Push(data));
  return LearnFromBuffer(env_step());
}

absl::Status SerialPipeline::OverlappedRound() {
  const auto learn = [this, known_env_step = env_step()] {
    const RunSpeed::Scope timed(loop_.speed(), RunSpeed::kLearn);
    return LearnFromBuffer(known_env_step);
  };
  const bool learns = std::exchange(has_new_rows_, false);
  // The run ends after these updates, so that nothing would be learned from rows of a further
  // collect.
  if (learns && loop_.TrainBudgetSpentAfter(config_.policy().learn().update_per_collect())) {
    return learn();
  }
  DING_RETURN_IF_ERROR(PublishModel());
  if (collector_env_->has_statistics()) {
    DING_ASSIGN_OR_RETURN(env_statistics_, CopyState([this](StateWriter* writer) {
                            return collector_env_->SaveStatistics(writer);
                          }));
  }
  const CollectOptions next = NextCollect();
  learn_metrics_->Hold();
  if (learns) second_thread_->Begin(learn);
  const absl::StatusOr<SegmentBatch> data = Collect(next);
  const absl::Status learned = second_thread_->Wait();
  learn_metrics_->Release();
  env_statistics_ = nullptr;
  DING_RETURN_IF_ERROR(ErrorOfRound(data.status(), learned));
  DING_RETURN_IF_ERROR(Push(*data));
  has_new_rows_ = true;
  if (!loop_.EnvStepsSpent()) return absl::OkStatus();
  // No further round would learn from these rows, so this one does.
  has_new_rows_ = false;
  const RunSpeed::Scope timed(loop_.speed(), RunSpeed::kLearn);
  return LearnFromBuffer(env_step());
}

absl::Status SerialPipeline::PublishModel() {
  return CallUser("the policy", [this]() -> absl::Status {
    StateDict model("the model of the policy that learns");
    DING_RETURN_IF_ERROR(policy_->learn_mode()->SaveModel(&model));
    return collect_mode()->LoadModel(&model);
  });
}

CollectOptions SerialPipeline::NextCollect() {
  CollectOptions options;
  options.train_iter = learner_->train_iter();
  options.cancelled = options_.overdue;
  options.policy_settings = commander_->Step();
  if (opponent_ != nullptr) opponent_->PrepareCollect();
  collect_settings_ = options.policy_settings;
  return options;
}

absl::StatusOr<SegmentBatch> SerialPipeline::Collect(const CollectOptions& options) {
  const RunSpeed::Scope timed(loop_.speed(), RunSpeed::kCollect);
  // The other thread may be learning: the round waits for it also if this throws.
  return CallUser("the collector", [&] { return collector_->Collect(options); });
}

absl::Status SerialPipeline::BeginOtherEpisodes(int64_t number) {
  const uint64_t of_here = Rng::DeriveSeed(config_.seed(), "collector_env_after_failure",
                                           static_cast<uint64_t>(position()));
  DING_RETURN_IF_ERROR(collector_env_->Seed(
      Rng::DeriveSeed(of_here, "collector_env", static_cast<uint64_t>(number)), /*dynamic=*/true));
  DING_RETURN_IF_ERROR(collector_env_->Reset());
  std::vector<int> all(static_cast<size_t>(collector_env_->env_num()));
  std::iota(all.begin(), all.end(), 0);
  return collector_->DropEpisodes(all);
}

void SerialPipeline::WriteMeasurements() {
  if (buffer_ == nullptr) return;
  NamedValues metrics = {{"rows", static_cast<double>(buffer_->count())}};
  if (data_age_.has_value()) metrics.Set("age", *data_age_);
  WriteMetrics(metrics, kReplayBuffer, learner_->train_iter(), env_step(), "",
               options_.metrics.get());
}

ProgressValues SerialPipeline::progress_values() const {
  ProgressValues values;
  if (const std::optional<double> recent = collector_->recent_return()) {
    values.emplace_back("return", *recent);
  }
  for (ProgressValue& value : ProgressValuesOf(learner_.get())) values.push_back(std::move(value));
  for (const auto& [name, value] : collect_settings_) values.emplace_back(name, value);
  return values;
}

RunStatus SerialPipeline::status() const {
  RunStatus status = loop_.status(progress_values());
  if (buffer_ == nullptr) return status;
  BufferStatus* const buffer = status.add_buffer();
  buffer->set_buffer_id(kReplayBuffer);
  buffer->set_count(buffer_->count());
  buffer->set_push_count(buffer_->push_count());
  buffer->set_sample_count(rows_drawn_);
  if (data_age_.has_value()) buffer->set_staleness_iterations(*data_age_);
  return status;
}

absl::Status SerialPipeline::Push(const SegmentBatch& collected) {
  const absl::Status pushed = buffer_->Push(collected, env_step());
  if (!absl::IsUnavailable(pushed)) return pushed;
  // The rate control of the buffer admits no more rows for now; the run goes on without these.
  DING_LOG_FIRST_N(WARNING, 1) << "rows are dropped: " << pushed.message();
  return absl::OkStatus();
}

absl::Status SerialPipeline::LearnFromBuffer(int64_t env_step) {
  const LearnSection& learn = config_.policy().learn();
  for (int64_t i = 0; i < learn.update_per_collect() && loop_.MayTrain(); ++i) {
    if (options_.overdue && options_.overdue())
      return absl::CancelledError("the round is given up");
    const absl::StatusOr<Batch> batch = buffer_->Sample(learn.batch_size(), learner_->train_iter());
    if (absl::IsFailedPrecondition(batch.status())) {  // There are too few rows yet.
      DING_LOG_FIRST_N(INFO, 1) << "no training in this round: " << batch.status().message();
      last_refused_draw_ = batch.status();
      return absl::OkStatus();
    }
    DING_RETURN_IF_ERROR(batch.status());
    data_age_ = AgeOf(*batch, learner_->train_iter());
    rows_drawn_ += batch->rows();
    DING_RETURN_IF_ERROR(Learn(*batch, env_step));
  }
  return absl::OkStatus();
}

absl::Status SerialPipeline::Learn(const Batch& batch, int64_t env_step) {
  DING_RETURN_IF_ERROR(CallUser("the learner", [&] {
    return learner_->Train(batch, env_step, commander_->LearnSettings(env_step));
  }));
  if (buffer_ == nullptr || !config_.policy().priority()) return absl::OkStatus();
  const LearnInfo info = learner_->learn_info();
  return info.priority_info ? buffer_->Update(*info.priority_info) : absl::OkStatus();
}

}  // namespace ding
