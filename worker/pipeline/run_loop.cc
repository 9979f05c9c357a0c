#include "ding_worker/worker/pipeline/run_loop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/stopper.h"
#include "ding_worker/metrics/event_log.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {
namespace {

// How often a long evaluation shows itself.
constexpr absl::Duration kShowPeriod = absl::Milliseconds(200);

// The number of evaluations that the budget of a run allows at most: one before the first round,
// one at the end, and in between at most one per round, which takes an env step or more, and per
// eval_freq iterations.
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

std::map<std::string, InfoMean> MeansOfInfo(const EvalResult& eval) {
  std::map<std::string, InfoMean> means;
  for (const EpisodeValue& value : SummarizeEnvInfo(eval.episode_info)) {
    means[value.name] = {value.mean, value.count};
  }
  return means;
}

}  // namespace

ProgressValues ProgressValuesOf(LearnerView* learner) {
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
  speed_.Begin(work_.env_step(), work_.learner()->train_iter());
  if (!resumed_) {
    DING_LOG_EVENT(INFO, {EventKind::kStart, "new", work_.env_step(), 0}) << "the run begins";
  }
  CallSink([this] { options_.metrics->BeginRun(DescribeRunForSinks(config_)); });
  const absl::Status status = RunToTheEnd(result);
  DescribeEnd(status);
  FlushMetrics();
  return status;
}

void RunLoop::FlushMetrics() {
  const absl::Status flushed =
      CallUser("the metric sink", [this] { return options_.metrics->Flush(); });
  DING_LOG_IF(WARNING, !flushed.ok() && logs_are_written_)
      << "some of the logs could not be written: " << flushed.message();
  logs_are_written_ = flushed.ok();
}

void RunLoop::DescribeEnd(const absl::Status& status) {
  WriteSpeed(/*at_end=*/true);
  const RunEnd end = !status.ok()          ? RunEnd::kFailed
                     : result_.interrupted ? RunEnd::kInterrupted
                                           : RunEnd::kFinished;
  SerialResult result = result_;
  result.env_step = work_.env_step();
  result.train_iter = work_.learner()->train_iter();
  result.wall_seconds = WallSeconds();
  TellOfEnd(end, work_.position(), result, status.ok() ? result_.why : status.message());
}

void RunLoop::TellOfEnd(RunEnd end, int64_t position, const SerialResult& result,
                        absl::string_view why) {
  CallSink([&] {
    options_.metrics->EndRun(
        end, position, ResultsForSinks(result.eval_value, result.env_step, result.wall_seconds));
  });
  DING_LOG_EVENT(INFO, {EventKind::kEnd, std::string(NameOf(end)), result.env_step,
                        result.train_iter, result.eval_value.value_or(std::nan(""))})
      << (end == RunEnd::kFailed ? "the run failed: " : "the run ended: ") << why;
}

void RunLoop::WriteSpeed(bool at_end) {
  const int64_t env_step = IsSupervised(config_) ? -1 : work_.env_step();
  const int64_t train_iter = work_.learner()->train_iter();
  if (at_end) {
    CallSink([&] { speed_.Write(env_step, train_iter, options_.metrics.get()); });
  } else if (!speed_.WriteIfDue(env_step, train_iter, options_.metrics.get())) {
    return;
  }
  work_.WriteMeasurements();
}

absl::Status RunLoop::RunToTheEnd(SerialResult* result) {
  // Whatever a user's module throws, the run saves what it has and says why it ends.
  absl::Status status = CallUser("a module", [this]() -> absl::Status {
    DING_RETURN_IF_ERROR(LeaveFailedEpisodes());
    if (!resumed_) DING_RETURN_IF_ERROR(work_.Begin());
    DING_RETURN_IF_ERROR(Loop());
    return EvaluateAtEnd();
  });
  options_.ending();
  if (IsGivenUp(status)) {
    EndInterrupted();
    return SaveSafePoint(result);
  }
  result_.env_step = work_.env_step();
  result_.train_iter = work_.learner()->train_iter();
  *result = result_;
  if (!status.ok()) return SaveAfter(status, result);
  options_.progress(progress());
  // The resume point comes before the hooks, which belong to this end of the run and not to a
  // continuation.
  WaitForLogs();
  const absl::Status resume_point = has_end_point_ ? absl::OkStatus() : SaveResumePoint();
  if (result_.interrupted) {
    DING_RETURN_IF_ERROR(SaveCheckpoint("ckpt_interrupt"));
  } else {
    status = CallUser("the learner",
                      [&] { return work_.learner()->CallHooks(HookPosition::kAfterRun); });
    if (!status.ok()) return SaveAfter(status, result);
  }
  DING_RETURN_IF_ERROR(checkpoints_.Flush(options_.interrupted));
  result->wall_seconds = WallSeconds();
  return resume_point;
}

bool RunLoop::IsGivenUp(const absl::Status& status) const {
  return absl::IsCancelled(status) && options_.overdue && options_.overdue();
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
      DING_RETURN_IF_ERROR(work_.EvaluateIfDue(/*at_end=*/false));
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

absl::Status RunLoop::EvaluateAtEnd() {
  if (result_.stop || result_.interrupted || !(TrainBudgetSpent() || EnvStepsSpent())) {
    return absl::OkStatus();
  }
  // If it cannot be taken now, a later one has the state after the evaluation.
  has_end_point_ = SaveResumePoint().ok();
  const RunSpeed::Scope timed(&speed_, RunSpeed::kEvaluate);
  result_.why.clear();  // The evaluation may end the run for a better reason.
  DING_RETURN_IF_ERROR(work_.EvaluateIfDue(/*at_end=*/true));
  EndIfWanted();
  return absl::OkStatus();
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
  End(options_.why_stop());
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

bool RunLoop::LacksEvaluation() const {
  return result_.eval_value.has_value() && last_eval_iter_ != work_.learner()->train_iter();
}

absl::Status RunLoop::Evaluate() {
  ILearner* const learner = work_.learner();
  DING_RETURN_IF_ERROR(work_.PrepareEvaluation());
  DING_RETURN_IF_ERROR(played_.envs->Seed(
      Rng::DeriveSeed(config_.seed(), "evaluator_env", static_cast<uint64_t>(env_failures_)),
      /*dynamic=*/true));
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
                  std::move(eval.episode_return), MeansOfInfo(eval)};
  learner->run_signals()->NoteEvaluation(seen);
  DING_RETURN_IF_ERROR(
      CallUser("the learner", [&] { return learner->CallHooks(HookPosition::kAfterEval); }));
  // Stoppers see every evaluation, also one that ends the run or whose confirmation is interrupted.
  DING_RETURN_IF_ERROR(AskStoppers(&seen));
  // If there is a confirmation, its mean return decides: it tells better how good the policy is.
  if (!StopValueReached() || played_.confirmer == nullptr) {
    DING_RETURN_IF_ERROR(SaveIfBest(seen));
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

absl::Status RunLoop::SaveIfBest(const Evaluation& evaluation) {
  const absl::StatusOr<double> value = ValueOf(evaluation, config_.env().best_by());
  if (!value.ok()) {
    return result_.best.has_value() ? absl::OkStatus() : Annotate(value.status(), "env.best_by");
  }
  // The comparison is false for NaN, which is never the best.
  const double before =
      result_.best.has_value() ? result_.best->value : -std::numeric_limits<double>::infinity();
  if (!(*value > before)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(
      SaveCheckpoint(played_.best, {{kBestField, absl::StrFormat("%.17g", *value)}}));
  result_.best = {*value, work_.learner()->train_iter(), played_.best};
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
  Evaluation confirmed;
  confirmed.mean_return = played->mean_return;
  confirmed.info = MeansOfInfo(*played);
  return SaveIfBest(confirmed);
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

ProgressState RunLoop::progress() const {
  ProgressState state;
  state.env_step = work_.env_step();
  state.train_iter = work_.learner()->train_iter();
  state.last_eval = result_.eval_value;
  state.best_eval = best_eval_;
  return state;
}

RunStatus RunLoop::status(const ProgressValues& shown) const {
  RunStatus status;
  status.set_run(std::string(Basename(options_.exp_dir)));
  status.set_elapsed_seconds(WallSeconds());
  status.set_envstep(work_.env_step());
  status.set_train_iter(work_.learner()->train_iter());
  if (result_.eval_value.has_value()) status.set_eval_value(*result_.eval_value);
  if (best_eval_.has_value()) status.set_best_eval_value(*best_eval_);
  status.set_converged(result_.stop);
  for (const auto& [name, value] : shown) {
    Setting* const setting = status.add_shown();
    setting->set_name(name);
    setting->set_value(value);
  }
  return status;
}

}  // namespace ding
