#include "ding_worker/worker/serial_run/run_loop.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/run_signals.h"
#include "ding_worker/learner/stopper.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/run/checkpoint_components.h"
#include "ding_worker/worker/run/experiment_setup.h"
#include "ding_worker/worker/run/run_sinks.h"
#include "ding_worker/worker/run/save_outage.h"

namespace ding {
namespace {

constexpr char kRun[] = "run";
constexpr char kInterrupted[] = "it was interrupted";
constexpr char kWallSecondsField[] = "wall_seconds";
// A safe point is kept about once a second, and takes at most a 50th of the time.
constexpr absl::Duration kSafePointPeriod = absl::Seconds(1);
constexpr int kSafePointShare = 50;
// How often a long evaluation shows itself.
constexpr absl::Duration kShowPeriod = absl::Milliseconds(200);
// Parts of the state of the run.
constexpr char kConfirmations[] = "confirmations";
constexpr char kStoppers[] = "stoppers";

// Copies what each component would save.
absl::StatusOr<std::vector<CheckpointComponent>> CopyAll(
    std::vector<CheckpointComponent> components) {
  for (CheckpointComponent& component : components) {
    DING_ASSIGN_OR_RETURN(component.save, CopyState(component.save));
  }
  return components;
}

// The number of evaluations that the budget of a run allows at most: one before the first round, one at the
// end, and in between at most one per round, which takes an env step or more, and per eval_freq iterations.
int64_t MaxEvaluations(const ExperimentConfig& config) {
  int64_t between = std::numeric_limits<int64_t>::max() - 2;
  if (config.max_env_step() > 0) between = config.max_env_step();
  if (config.max_train_iter() > 0) {
    // The default differs from type to type.
    const auto& evaluator = config.policy().eval().evaluator();
    const int64_t freq = evaluator.has_eval_freq() ? evaluator.eval_freq() : 1;
    between = std::min(between, config.max_train_iter() / freq);
  }
  return between + 2;
}

}  // namespace

ProgressValues ProgressValuesOf(ILearner* learner) {
  ProgressValues values;
  for (const auto& [label, name] : learner->policy()->progress_vars()) {
    const std::optional<double> average = learner->monitor()->Average(name);
    if (average.has_value()) values.emplace_back(label, *average);
  }
  return values;
}

RunLoop::RunLoop(const ExperimentConfig& config, const SerialOptions& options, RunWork* work)
    : config_(config),
      options_(options),
      work_(*work),
      checkpoints_(options.exp_dir, options.clock),
      run_timer_(options.clock),
      speed_(options.clock),
      resume_point_timer_(options.clock),
      since_safe_point_(options.clock),
      since_shown_(options.clock) {}

ComponentDeps RunLoop::Deps(absl::string_view name) const {
  ComponentDeps deps;
  deps.metrics = options_.metrics;
  deps.clock = options_.clock;
  deps.seed = config_.seed();
  deps.exp_dir = options_.exp_dir;
  deps.name = std::string(name);
  return deps;
}

absl::Status RunLoop::Run(SerialResult* result) {
  DescribeBegin();
  const absl::Status status = RunToTheEnd(result);
  DescribeEnd(status);
  FlushMetrics();
  return status;
}

void RunLoop::FlushMetrics() {
  const absl::Status flushed = options_.metrics->Flush();
  DING_LOG_IF(WARNING, !flushed.ok() && logs_are_written_)
      << "some of the logs could not be written: " << flushed.message();
  logs_are_written_ = flushed.ok();
}

void RunLoop::DescribeBegin() {
  speed_.Begin(work_.env_step(), work_.learner()->train_iter());
  options_.metrics->BeginRun(DescribeRunForSinks(config_));
}

void RunLoop::DescribeEnd(const absl::Status& status) {
  WriteSpeed(/*at_end=*/true);
  const RunEnd end = !status.ok()          ? RunEnd::kFailed
                     : result_.interrupted ? RunEnd::kInterrupted
                                           : RunEnd::kFinished;
  options_.metrics->EndRun(end, work_.position(),
                           ResultsForSinks(result_.eval_value, work_.env_step(), WallSeconds()));
}

void RunLoop::WriteSpeed(bool at_end) {
  const int64_t env_step = IsSupervised(config_) ? -1 : work_.env_step();
  const int64_t train_iter = work_.learner()->train_iter();
  if (at_end) {
    speed_.Write(env_step, train_iter, options_.metrics.get());
  } else if (!speed_.WriteIfDue(env_step, train_iter, options_.metrics.get())) {
    return;
  }
  work_.WriteMeasurements();
}

absl::Status RunLoop::RunToTheEnd(SerialResult* result) {
  absl::Status status = resumed_ ? absl::OkStatus() : work_.Begin();
  if (status.ok()) status = Loop();
  options_.ending();
  if (IsGivenUp(status)) {
    EndInterrupted();
    return SaveSafePoint(result);
  }
  result_.env_step = work_.env_step();
  result_.train_iter = work_.learner()->train_iter();
  *result = result_;
  if (!status.ok()) return SaveAfter(status);
  options_.progress(progress());
  // The resume point comes before the hooks, which belong to this end of the run and not to a
  // continuation.
  WaitForLogs();
  const absl::Status resume_point = SaveResumePoint();
  if (result_.interrupted) {
    DING_RETURN_IF_ERROR(SaveCheckpoint("ckpt_interrupt"));
  } else {
    status = CallUser("the learner",
                      [&] { return work_.learner()->CallHooks(HookPosition::kAfterRun); });
    if (!status.ok()) return SaveAfter(status);
  }
  DING_RETURN_IF_ERROR(checkpoints_.Flush(options_.interrupted));
  result->wall_seconds = WallSeconds();
  return resume_point;
}

void RunLoop::WaitForLogs() {
  if (!KeepsResumePoints()) return;
  const auto write = [this] {
    CheckpointInfo unused;
    return options_.describe(&unused);
  };
  // The resume point has the error if they cannot be written.
  SaveOutage(options_.clock).Wait("the log", write, options_.interrupted).IgnoreError();
}

bool RunLoop::IsGivenUp(const absl::Status& status) const {
  return absl::IsCancelled(status) && options_.overdue && options_.overdue();
}

absl::Status RunLoop::SaveSafePoint(SerialResult* result) {
  std::shared_ptr<const SafePoint> point;
  {
    const MutexLock lock(&safe_mutex_);
    point = safe_point_;
  }
  if (point != nullptr) *result = point->result;
  result->interrupted = true;
  result->why = kInterrupted;
  result->saved = point != nullptr;
  if (point == nullptr) return absl::OkStatus();
  if (KeepsResumePoints()) {
    std::vector<CheckpointComponent> all = point->acting;
    all.insert(all.end(), point->rest.begin(), point->rest.end());
    checkpoints_.SaveResumePoint(point->position, point->info, std::move(all));
  }
  DING_RETURN_IF_ERROR(checkpoints_.Save("ckpt_interrupt", point->info, point->acting));
  return checkpoints_.Flush();
}

absl::Status RunLoop::SaveLastSafePoint(SerialResult* result) {
  const absl::Status saved = SaveSafePoint(result);
  options_.metrics->EndRun(
      RunEnd::kInterrupted, IsSupervised(config_) ? result->train_iter : result->env_step,
      ResultsForSinks(result->eval_value, result->env_step, result->wall_seconds));
  const absl::Status flushed = options_.metrics->Flush();
  DING_LOG_IF(WARNING, !flushed.ok())
      << "some of the logs could not be written: " << flushed.message();
  return saved;
}

absl::Status RunLoop::SaveAfter(absl::Status error) {
  absl::Status saved = CallUser("the policy", [this] { return SaveCheckpoint("ckpt_exception"); });
  saved.Update(checkpoints_.Flush());
  DING_LOG_IF(WARNING, !saved.ok())
      << "the run failed, and not everything could be saved: " << saved.message();
  return error;
}

absl::Status RunLoop::Loop() {
  // A resumed run may have reached its end before; its stop value may have changed since.
  DING_RETURN_IF_ERROR(EndIfSolved());
  while (true) {
    EndIfWanted();
    if (ended()) return absl::OkStatus();
    if (options_.interrupted()) {
      EndInterrupted();
      return absl::OkStatus();
    }
    {
      const RunSpeed::Scope timed(&speed_, RunSpeed::kSave);
      SaveResumePointIfDue();
      TakeSafePointIfDue();
      DING_RETURN_IF_ERROR(checkpoints_.Retry());
    }
    {
      const RunSpeed::Scope timed(&speed_, RunSpeed::kEvaluate);
      DING_RETURN_IF_ERROR(work_.EvaluateIfDue());
    }
    EndIfWanted();
    if (ended()) return absl::OkStatus();
    DING_RETURN_IF_ERROR(work_.Round());
    ++rounds_;
    WriteSpeed(/*at_end=*/false);
    options_.progress(progress());
    DING_RETURN_IF_ERROR(AskStoppers(/*evaluation=*/nullptr));
  }
}

void RunLoop::End(absl::string_view why) {
  if (!ended()) result_.why = std::string(why);
}

void RunLoop::EndInterrupted() {
  result_.interrupted = true;
  End(kInterrupted);
}

void RunLoop::EndIfWanted() {
  if (work_.Stopped()) {
    result_.stop = true;
    End("policy.eval.metric_evaluator.stop_value was reached");
  }
  const std::string& request = work_.learner()->run_signals()->stop_request();
  if (!request.empty()) End(absl::StrCat("a hook: ", request));
  End(stoppers_.why());
  if (TrainBudgetSpent())
    End(absl::StrCat("max_train_iter ", config_.max_train_iter(), " was reached"));
  if (EnvStepsSpent()) End(absl::StrCat("max_env_step ", config_.max_env_step(), " was reached"));
}

absl::Status RunLoop::AskStoppers(const Evaluation* evaluation) {
  if (stoppers_.empty()) return absl::OkStatus();
  RunMoment now;
  now.env_step = work_.env_step();
  now.train_iter = work_.learner()->train_iter();
  now.elapsed = absl::Seconds(WallSeconds());
  now.evaluation = evaluation;
  return stoppers_.Ask(now);
}

absl::Status RunLoop::Evaluate() {
  ILearner* const learner = work_.learner();
  DING_RETURN_IF_ERROR(work_.PrepareEvaluation());
  DING_RETURN_IF_ERROR(
      played_.envs->Seed(Rng::DeriveSeed(config_.seed(), "evaluator_env"), /*dynamic=*/true));
  ShowStage("evaluating");
  EvalOptions options = MakeEvalOptions();
  options.cancelled = [this] {
    if (since_shown_.Elapsed() >= kShowPeriod) ShowStage("evaluating");
    return options_.overdue && options_.overdue();
  };
  DING_ASSIGN_OR_RETURN(EvalResult eval, played_.evaluator->Eval(options));
  FlushMetrics();
  last_eval_iter_ = learner->train_iter();
  result_.eval_value = eval.mean_return;
  result_.eval_value_raw = eval.episode_return;
  best_eval_ = std::max(best_eval_.value_or(eval.mean_return), eval.mean_return);
  Evaluation seen{last_eval_iter_, work_.env_step(), eval.mean_return,
                  std::move(eval.episode_return)};
  learner->run_signals()->NoteEvaluation(seen);
  DING_RETURN_IF_ERROR(
      CallUser("the learner", [&] { return learner->CallHooks(HookPosition::kAfterEval); }));
  // Stoppers see every evaluation, also one that ends the run or whose confirmation is interrupted.
  DING_RETURN_IF_ERROR(AskStoppers(&seen));
  // If there is a confirmation, its mean return decides: it tells better how good the policy is.
  if (!StopValueReached() || played_.confirmer == nullptr) {
    DING_RETURN_IF_ERROR(SaveIfBest(eval.mean_return));
  }
  return EndIfSolved();
}

EvalOptions RunLoop::MakeEvalOptions() const {
  EvalOptions options;
  options.train_iter = work_.learner()->train_iter();
  if (played_.has_env_steps) options.envstep = work_.env_step();
  return options;
}

void RunLoop::ShowStage(absl::string_view stage) {
  since_shown_ = Timer(options_.clock);
  ProgressState state = progress();
  state.detail = std::string(stage);
  options_.progress(state);
}

absl::Status RunLoop::SaveIfBest(double mean_return) {
  // The comparison is false for NaN, which is never the best.
  const double before = best_saved_.value_or(-std::numeric_limits<double>::infinity());
  if (!(mean_return > before)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(SaveCheckpoint(played_.best));
  best_saved_ = mean_return;
  return absl::OkStatus();
}

absl::Status RunLoop::EndIfSolved() {
  if (!StopValueReached()) return absl::OkStatus();
  const double stop_value = config_.env().stop_value();
  std::string why =
      absl::StrCat("env.stop_value ", stop_value, " was reached: the mean return of ",
                   result_.eval_value_raw.size(), " episodes is ", *result_.eval_value);
  if (played_.confirmer != nullptr) {
    if (confirmed_eval_iter_ != last_eval_iter_) DING_RETURN_IF_ERROR(Confirm());
    if (ended() || !(result_.confirmation->lower_bound() >= stop_value)) return absl::OkStatus();
    absl::StrAppend(&why, ", and that of ", result_.confirmation->episodes, " fresh ones ",
                    result_.confirmation->mean, " with a standard error of ",
                    result_.confirmation->standard_error);
  }
  result_.stop = true;
  End(why);
  return absl::OkStatus();
}

absl::Status RunLoop::Confirm() {
  const uint64_t number = static_cast<uint64_t>(confirmations_);
  DING_RETURN_IF_ERROR(played_.envs->Seed(
      Rng::DeriveSeed(config_.seed(), "confirmation_env", number), /*dynamic=*/true));
  EvalOptions options = MakeEvalOptions();
  options.cancelled = [this] {
    if (since_shown_.Elapsed() >= kShowPeriod) ShowStage("confirming");
    return options_.interrupted();
  };
  const absl::StatusOr<EvalResult> played = played_.confirmer->Eval(options);
  if (absl::IsCancelled(played.status()) && options_.interrupted()) {
    EndInterrupted();  // A run that is resumed plays the same episodes.
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(played.status());
  ++confirmations_;
  confirmed_eval_iter_ = last_eval_iter_;
  result_.confirmation = EstimateReturn(played->episode_return, played->mean_return);
  DING_LOG(INFO) << "confirmation at iteration " << options.train_iter << ": the mean return of "
                 << result_.confirmation->episodes << " fresh episodes is "
                 << result_.confirmation->mean << ", with a standard error of "
                 << result_.confirmation->standard_error;
  return SaveIfBest(result_.confirmation->mean);
}

bool RunLoop::StopValueReached() const {
  return result_.eval_value.has_value() && last_eval_iter_ > 0 &&
         *result_.eval_value >= config_.env().stop_value();
}

absl::Status RunLoop::CreateStoppers(StopperDeps deps) {
  deps.has_evaluations = played_.evaluator != nullptr;
  deps.max_evaluations = MaxEvaluations(config_);
  DING_ASSIGN_OR_RETURN(stoppers_, StopperList::Create(config_.stopper(), deps));
  return absl::OkStatus();
}

bool RunLoop::MayTrain() const {
  return !TrainBudgetSpent() && work_.learner()->run_signals()->stop_request().empty();
}

bool RunLoop::TrainBudgetSpentAfter(int64_t batches) const {
  return config_.max_train_iter() > 0 &&
         work_.learner()->train_iter() + batches >= config_.max_train_iter();
}

bool RunLoop::EnvStepsSpent() const {
  return config_.max_env_step() > 0 && work_.env_step() >= config_.max_env_step();
}

absl::Status RunLoop::SaveCheckpoint(absl::string_view name) {
  CheckpointInfo info = LearnerCheckpointInfo(*work_.learner());
  DescribeRun(config_, work_.env_spec(), &info);
  DING_ASSIGN_OR_RETURN(std::vector<CheckpointComponent> components, CopyAll(ActingComponents()));
  return checkpoints_.Save(name, std::move(info), std::move(components));
}

void RunLoop::SaveResumePointIfDue() {
  const ResumeSection& resume = config_.resume();
  const bool by_rounds =
      resume.period_rounds() > 0 && rounds_ > 0 && rounds_ % resume.period_rounds() == 0;
  // A resume point that is due by time may wait for the disk.
  const bool by_time = resume.period_seconds() > 0 &&
                       resume_point_timer_.Seconds() >= resume.period_seconds() &&
                       checkpoints_.idle();
  if (!by_rounds && !by_time) return;
  const absl::Status status = SaveResumePoint();
  const bool before = std::exchange(has_resume_point_, status.ok());
  if (!status.ok() && before) {
    DING_LOG(WARNING) << "no resume point at env step " << work_.env_step() << ", train iteration "
                      << work_.learner()->train_iter() << ", the run goes on: " << status.message();
  }
}

bool RunLoop::KeepsResumePoints() const {
  return config_.resume().period_seconds() > 0 || config_.resume().period_rounds() > 0;
}

absl::Status RunLoop::SaveResumePoint() {
  if (!KeepsResumePoints()) return absl::OkStatus();
  resume_point_timer_ = Timer(options_.clock);
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<const SafePoint> point, TakeSafePoint());
  std::vector<CheckpointComponent> all = point->acting;
  all.insert(all.end(), point->rest.begin(), point->rest.end());
  checkpoints_.SaveResumePoint(point->position, point->info, std::move(all));
  return absl::OkStatus();
}

void RunLoop::TakeSafePointIfDue() {
  if (!options_.overdue || since_safe_point_.Elapsed() < safe_point_pause_) return;
  const Timer took(options_.clock);
  const absl::Status status = TakeSafePoint().status();
  DING_LOG_IF(WARNING, !status.ok() && can_take_safe_points_)
      << "an interrupt in the middle of the next round could not save the run: "
      << status.message();
  can_take_safe_points_ = status.ok();
  since_safe_point_ = Timer(options_.clock);
  safe_point_pause_ = std::max(kSafePointPeriod, kSafePointShare * took.Elapsed());
}

absl::StatusOr<std::shared_ptr<const SafePoint>> RunLoop::TakeSafePoint() {
  auto point = std::make_shared<SafePoint>();
  point->position = work_.position();
  point->info = LearnerCheckpointInfo(*work_.learner());
  DescribeRun(config_, work_.env_spec(), &point->info);
  DING_ASSIGN_OR_RETURN(point->acting, CopyAll(ActingComponents()));
  if (KeepsResumePoints()) {
    point->info.fields["env_step"] = absl::StrCat(work_.env_step());
    point->info.fields[kWallSecondsField] = absl::StrCat(WallSeconds());
    // Flushes the logs, because a run that is resumed cuts their files back to the size that they have now.
    FlushMetrics();
    DING_RETURN_IF_ERROR(options_.describe(&point->info));
    std::vector<CheckpointComponent> rest = work_.Components();
    rest.push_back({kRun, [this](StateWriter* writer) { return SaveRunState(writer); }});
    DING_ASSIGN_OR_RETURN(point->rest, CopyAll(std::move(rest)));
    DING_RETURN_IF_ERROR(work_.AddSnapshots(&point->rest));
  }
  point->result = result_;
  point->result.env_step = work_.env_step();
  point->result.train_iter = work_.learner()->train_iter();
  point->result.wall_seconds = WallSeconds();
  if (options_.overdue) {
    const MutexLock lock(&safe_mutex_);
    safe_point_ = point;
  }
  return point;
}

std::vector<CheckpointComponent> RunLoop::ActingComponents() {
  std::vector<CheckpointComponent> components = LearnerComponents(*work_.learner());
  for (CheckpointComponent& component : work_.ActingComponents()) {
    components.push_back(std::move(component));
  }
  return components;
}

absl::Status RunLoop::SaveRunState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("rounds", rounds_));
  DING_RETURN_IF_ERROR(writer->WriteInt("last_eval_iter", last_eval_iter_));
  DING_RETURN_IF_ERROR(writer->WriteInt("has_eval", result_.eval_value.has_value()));
  DING_RETURN_IF_ERROR(writer->WriteDouble("eval_value", result_.eval_value.value_or(0)));
  DING_RETURN_IF_ERROR(writer->WriteDouble("best_eval", best_eval_.value_or(0)));
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>("eval_value_raw", result_.eval_value_raw));
  DING_RETURN_IF_ERROR(writer->WriteInt("has_best_saved", best_saved_.has_value()));
  DING_RETURN_IF_ERROR(writer->WriteDouble("best_saved", best_saved_.value_or(0)));
  DING_RETURN_IF_ERROR(writer->WriteInt(kConfirmations, confirmations_));
  DING_RETURN_IF_ERROR(writer->WriteInt("confirmed_eval_iter", confirmed_eval_iter_));
  const ReturnEstimate confirmation = result_.confirmation.value_or(ReturnEstimate());
  DING_RETURN_IF_ERROR(writer->WriteInt("confirmation_episodes", confirmation.episodes));
  DING_RETURN_IF_ERROR(writer->WriteDouble("confirmation_mean", confirmation.mean));
  DING_RETURN_IF_ERROR(writer->WriteDouble("confirmation_error", confirmation.standard_error));
  ScopedStateWriter stoppers(writer, kStoppers);
  return stoppers_.SaveState(&stoppers);
}

absl::Status RunLoop::LoadRunState(StateReader* reader) {
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
  DING_RETURN_IF_ERROR(
      reader->ReadSpan<double>("eval_value_raw", absl::MakeSpan(result_.eval_value_raw)));
  if (!reader->Info(kConfirmations).ok()) {  // of a run from before there were any
    best_saved_ = best_eval_;
    return absl::OkStatus();
  }
  DING_ASSIGN_OR_RETURN(const int64_t has_best_saved, reader->ReadInt("has_best_saved"));
  DING_ASSIGN_OR_RETURN(const double best_saved, reader->ReadDouble("best_saved"));
  if (has_best_saved != 0) best_saved_ = best_saved;
  DING_ASSIGN_OR_RETURN(confirmations_, reader->ReadInt(kConfirmations));
  DING_ASSIGN_OR_RETURN(confirmed_eval_iter_, reader->ReadInt("confirmed_eval_iter"));
  ReturnEstimate confirmation;
  DING_ASSIGN_OR_RETURN(confirmation.episodes, reader->ReadInt("confirmation_episodes"));
  DING_ASSIGN_OR_RETURN(confirmation.mean, reader->ReadDouble("confirmation_mean"));
  DING_ASSIGN_OR_RETURN(confirmation.standard_error, reader->ReadDouble("confirmation_error"));
  if (confirmations_ > 0) result_.confirmation = confirmation;
  ScopedStateReader stoppers(reader, kStoppers);
  return stoppers_.LoadState(&stoppers);
}

absl::Status RunLoop::Resume(const CheckpointReader& checkpoint) {
  const std::map<std::string, std::string>& fields = checkpoint.info().fields;
  const auto env = fields.find("env");
  if (env != fields.end() && env->second != work_.env_spec().name) {
    return absl::InvalidArgumentError(absl::StrCat("the resume point is of env '", env->second,
                                                   "', expected '", work_.env_spec().name, "'"));
  }
  DING_RETURN_IF_ERROR(LoadLearnerComponents(checkpoint, work_.learner()));
  DING_RETURN_IF_ERROR(work_.LoadComponents(checkpoint));
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kRun,
                                     [this](StateReader* reader) { return LoadRunState(reader); }));
  const auto seconds = fields.find(kWallSecondsField);
  if (seconds != fields.end() && !absl::SimpleAtod(seconds->second, &earlier_seconds_)) {
    earlier_seconds_ = 0;
  }
  resumed_ = true;
  DING_LOG(INFO) << "resumed at env step " << work_.env_step() << ", train iteration "
                 << work_.learner()->train_iter();
  return absl::OkStatus();
}

ProgressState RunLoop::progress() const {
  ProgressState state;
  state.env_step = work_.env_step();
  state.train_iter = work_.learner()->train_iter();
  state.last_eval = result_.eval_value;
  state.best_eval = best_eval_;
  return state;
}

}  // namespace ding
