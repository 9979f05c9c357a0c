#include "ding_worker/worker/serial_run/run_loop.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/run/experiment_setup.h"
#include "ding_worker/worker/run/run_sinks.h"

namespace ding {
namespace {

constexpr char kRun[] = "run";
constexpr char kWallSecondsField[] = "wall_seconds";

// Copies what each component would save.
absl::StatusOr<std::vector<CheckpointComponent>> CopyAll(
    std::vector<CheckpointComponent> components) {
  for (CheckpointComponent& component : components) {
    DING_ASSIGN_OR_RETURN(component.save, CopyState(component.save));
  }
  return components;
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
      checkpoints_(options.exp_dir),
      run_timer_(options.clock),
      speed_(options.clock),
      resume_point_timer_(options.clock) {}

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
  const absl::Status flushed = options_.metrics->Flush();
  DING_LOG_IF(WARNING, !flushed.ok())
      << "some of the logs could not be written: " << flushed.message();
  return status;
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
  result_.env_step = work_.env_step();
  result_.train_iter = work_.learner()->train_iter();
  *result = result_;
  if (!status.ok()) return SaveAfter(status);
  options_.progress(progress());
  // The resume point comes before the hooks, which belong to this end of the run and not to a
  // continuation.
  const absl::Status resume_point = SaveResumePoint();
  if (result_.interrupted) {
    DING_RETURN_IF_ERROR(SaveCheckpoint("ckpt_interrupt"));
  } else {
    status = CallUser("the learner",
                      [&] { return work_.learner()->CallHooks(HookPosition::kAfterRun); });
    if (!status.ok()) return SaveAfter(status);
  }
  DING_RETURN_IF_ERROR(checkpoints_.Flush());
  result->wall_seconds = WallSeconds();
  return resume_point;
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
  result_.stop = StopValueReached() || work_.Stopped();
  while (!result_.stop && !BudgetSpent()) {
    if (options_.interrupted()) {
      result_.interrupted = true;
      return absl::OkStatus();
    }
    {
      const RunSpeed::Scope timed(&speed_, RunSpeed::kSave);
      SaveResumePointIfDue();
    }
    {
      const RunSpeed::Scope timed(&speed_, RunSpeed::kEvaluate);
      DING_RETURN_IF_ERROR(work_.EvaluateIfDue());
    }
    if (result_.stop || work_.Stopped()) {
      result_.stop = true;
      return absl::OkStatus();
    }
    DING_RETURN_IF_ERROR(work_.Round());
    ++rounds_;
    WriteSpeed(/*at_end=*/false);
    options_.progress(progress());
  }
  return absl::OkStatus();
}

absl::Status RunLoop::Evaluate(ISerialEvaluator* evaluator, EnvManager* envs,
                               absl::string_view best, int64_t envstep) {
  DING_RETURN_IF_ERROR(
      envs->Seed(Rng::DeriveSeed(config_.seed(), "evaluator_env"), /*dynamic=*/true));
  EvalOptions options;
  options.save_checkpoint = [this, best](absl::string_view) { return SaveCheckpoint(best); };
  options.train_iter = work_.learner()->train_iter();
  options.envstep = envstep;
  DING_ASSIGN_OR_RETURN(const EvalResult eval, evaluator->Eval(options));
  last_eval_iter_ = work_.learner()->train_iter();
  result_.eval_value = eval.mean_return;
  result_.eval_value_raw = eval.episode_return;
  result_.stop = eval.stop;
  best_eval_ = std::max(best_eval_.value_or(eval.mean_return), eval.mean_return);
  return absl::OkStatus();
}

bool RunLoop::StopValueReached() const {
  return result_.eval_value.has_value() && last_eval_iter_ > 0 &&
         *result_.eval_value >= config_.env().stop_value();
}

bool RunLoop::TrainBudgetSpent() const {
  return config_.max_train_iter() > 0 && work_.learner()->train_iter() >= config_.max_train_iter();
}

bool RunLoop::BudgetSpent() const {
  return TrainBudgetSpent() ||
         (config_.max_env_step() > 0 && work_.env_step() >= config_.max_env_step());
}

absl::Status RunLoop::SaveCheckpoint(absl::string_view name) {
  CheckpointInfo info = LearnerCheckpointInfo(*work_.learner());
  DescribeRun(config_, work_.env_name(), &info);
  DING_ASSIGN_OR_RETURN(std::vector<CheckpointComponent> components,
                        CopyAll(LearnerComponents(*work_.learner())));
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
  if (!status.ok()) {
    DING_LOG(WARNING) << "no resume point at env step " << work_.env_step() << ", train iteration "
                      << work_.learner()->train_iter() << ", the run goes on: " << status.message();
  }
}

absl::Status RunLoop::SaveResumePoint() {
  if (config_.resume().period_seconds() == 0 && config_.resume().period_rounds() == 0) {
    return absl::OkStatus();
  }
  CheckpointInfo info = LearnerCheckpointInfo(*work_.learner());
  info.fields["env_step"] = absl::StrCat(work_.env_step());
  info.fields[kWallSecondsField] = absl::StrCat(WallSeconds());
  DescribeRun(config_, work_.env_name(), &info);
  resume_point_timer_ = Timer(options_.clock);
  // The files are cut back to their size of now when the run is resumed.
  const absl::Status flushed = options_.metrics->Flush();
  DING_LOG_IF(WARNING, !flushed.ok())
      << "some of the logs could not be written: " << flushed.message();
  DING_RETURN_IF_ERROR(options_.describe(&info));
  DING_ASSIGN_OR_RETURN(std::vector<CheckpointComponent> components, TakeSnapshots());
  checkpoints_.SaveResumePoint(work_.position(), std::move(info), std::move(components));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointComponent>> RunLoop::TakeSnapshots() {
  std::vector<CheckpointComponent> components = LearnerComponents(*work_.learner());
  for (CheckpointComponent& component : work_.Components()) {
    components.push_back(std::move(component));
  }
  components.push_back({kRun, [this](StateWriter* writer) { return SaveRunState(writer); }});
  DING_ASSIGN_OR_RETURN(components, CopyAll(std::move(components)));
  DING_RETURN_IF_ERROR(work_.AddSnapshots(&components));
  return components;
}

absl::Status RunLoop::SaveRunState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("rounds", rounds_));
  DING_RETURN_IF_ERROR(writer->WriteInt("last_eval_iter", last_eval_iter_));
  DING_RETURN_IF_ERROR(writer->WriteInt("has_eval", result_.eval_value.has_value()));
  DING_RETURN_IF_ERROR(writer->WriteDouble("eval_value", result_.eval_value.value_or(0)));
  DING_RETURN_IF_ERROR(writer->WriteDouble("best_eval", best_eval_.value_or(0)));
  return writer->WriteSpan<double>("eval_value_raw", result_.eval_value_raw);
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
  return reader->ReadSpan<double>("eval_value_raw", absl::MakeSpan(result_.eval_value_raw));
}

absl::Status RunLoop::Resume(const CheckpointReader& checkpoint) {
  const std::map<std::string, std::string>& fields = checkpoint.info().fields;
  const auto env = fields.find("env");
  if (env != fields.end() && env->second != work_.env_name()) {
    return absl::InvalidArgumentError(absl::StrCat("the resume point is of env '", env->second,
                                                   "', expected '", work_.env_name(), "'"));
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
