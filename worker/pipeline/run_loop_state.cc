// The part of RunLoop that saves: checkpoints, resume points and safe points, and the state in
// them.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/pipeline/run_loop.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/run_folder/save_outage.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {
namespace {

constexpr char kRun[] = "run";
constexpr char kWallSecondsField[] = "wall_seconds";
constexpr char kException[] = "ckpt_exception";
// Fields of ckpt_exception, if an env has failed.
constexpr char kEnvFailuresField[] = "env_failures";
constexpr char kPositionField[] = "position";
// A safe point is kept about once a second, and takes at most a 50th of the time.
constexpr absl::Duration kSafePointPeriod = absl::Seconds(1);
constexpr int kSafePointShare = 50;
// Parts of the state of the run.
constexpr char kConfirmations[] = "confirmations";
constexpr char kBestIter[] = "best_saved_iter";
constexpr char kStoppers[] = "stoppers";

// The number in a field of a checkpoint; 0 if there is none.
int64_t NumberIn(const CheckpointReader& checkpoint, absl::string_view name) {
  const auto& fields = checkpoint.info().fields;
  const auto found = fields.find(std::string(name));
  int64_t number = 0;
  return found != fields.end() && absl::SimpleAtoi(found->second, &number) ? number : 0;
}

// Whether a step or a reset of one of the envs has failed.
bool HasFailed(const EnvManager* envs) {
  if (envs == nullptr) return false;
  bool failed = envs->closed();
  for (int i = 0; i < envs->env_num(); ++i) failed |= envs->env_state(i) == EnvState::kError;
  return failed;
}

// The components of a resume point.
std::vector<CheckpointComponent> AllOf(const SafePoint& point) {
  std::vector<CheckpointComponent> all = point.acting;
  all.insert(all.end(), point.rest.begin(), point.rest.end());
  return all;
}

}  // namespace

void RunLoop::WaitForLogs() {
  if (!KeepsResumePoints()) return;
  const auto write = [this] {
    CheckpointInfo unused;
    return options_.describe(&unused);
  };
  // The resume point has the error if they cannot be written.
  SaveOutage(options_.clock).Wait("the log", write, options_.interrupted).IgnoreError();
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
    checkpoints_.SaveResumePoint(point->position, point->info, AllOf(*point));
  }
  DING_RETURN_IF_ERROR(checkpoints_.Save("ckpt_interrupt", point->info, point->acting));
  return checkpoints_.Flush();
}

absl::Status RunLoop::SaveLastSafePoint(SerialResult* result) {
  const absl::Status saved = SaveSafePoint(result);
  TellOfEnd(RunEnd::kInterrupted, IsSupervised(config_) ? result->train_iter : result->env_step,
            *result, kInterrupted);
  const absl::Status flushed =
      CallUser("the metric sink", [this] { return options_.metrics->Flush(); });
  DING_LOG_IF(WARNING, !flushed.ok())
      << "some of the logs could not be written: " << flushed.message();
  return saved;
}

absl::Status RunLoop::LeaveFailedEpisodes() {
  const absl::StatusOr<CheckpointReader> failed =
      CheckpointReader::Open(absl::StrCat(options_.exp_dir, "/ckpt/", kException));
  if (!failed.ok()) return absl::OkStatus();  // No run of this folder has failed.
  // If it failed before this point, a run has got past it.
  if (NumberIn(*failed, kPositionField) < work_.position()) return absl::OkStatus();
  env_failures_ = NumberIn(*failed, kEnvFailuresField);
  if (env_failures_ < 1) return absl::OkStatus();
  DING_LOG(WARNING) << "an env failed after this point of the run: all envs begin other episodes, "
                       "in which it may not fail; the run goes on inexactly";
  return work_.BeginOtherEpisodes(env_failures_);
}

absl::Status RunLoop::SaveAfter(absl::Status error, SerialResult* result) {
  env_failed_ = HasFailed(work_.collecting_envs()) || HasFailed(played_.envs);
  absl::Status saved = CallUser("the policy", [this] { return SaveCheckpoint(kException); });
  saved.Update(checkpoints_.Flush());
  DING_LOG_IF(WARNING, !saved.ok())
      << "the run failed, and not everything could be saved: " << saved.message();
  if (saved.ok()) result->saved_as = kException;
  return error;
}

absl::Status RunLoop::SaveCheckpoint(absl::string_view name,
                                     const std::map<std::string, std::string>& fields) {
  CheckpointInfo info = LearnerCheckpointInfo(*work_.learner());
  info.fields.insert(fields.begin(), fields.end());
  DescribeRun(config_, work_.env_spec(), &info);
  if (env_failed_) {
    info.fields[kEnvFailuresField] = absl::StrCat(env_failures_ + 1);
    info.fields[kPositionField] = absl::StrCat(work_.position());
  }
  DING_ASSIGN_OR_RETURN(std::vector<CheckpointComponent> components,
                        CopyComponents(ActingComponents()));
  DING_RETURN_IF_ERROR(checkpoints_.Save(name, std::move(info), std::move(components)));
  return work_.SaveBeside(name);
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
  checkpoints_.SaveResumePoint(point->position, point->info, AllOf(*point));
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
  DING_ASSIGN_OR_RETURN(point->acting, CopyComponents(ActingComponents()));
  if (KeepsResumePoints()) {
    point->info.fields["env_step"] = absl::StrCat(work_.env_step());
    point->info.fields[kWallSecondsField] = absl::StrCat(WallSeconds());
    // Flushes the logs, because a run that is resumed cuts their files back to the size that they
    // have now.
    FlushMetrics();
    DING_RETURN_IF_ERROR(options_.describe(&point->info));
    std::vector<CheckpointComponent> rest = work_.Components();
    rest.push_back({kRun, [this](StateWriter* writer) { return SaveRunState(writer); }});
    DING_ASSIGN_OR_RETURN(point->rest, CopyComponents(std::move(rest)));
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
  const BestEvaluation best = result_.best.value_or(BestEvaluation());
  DING_RETURN_IF_ERROR(writer->WriteInt("has_best_saved", result_.best.has_value()));
  DING_RETURN_IF_ERROR(writer->WriteDouble("best_saved", best.value));
  DING_RETURN_IF_ERROR(writer->WriteInt(kBestIter, best.train_iter));
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
  DING_ASSIGN_OR_RETURN(rounds_, reader->ReadCount("rounds"));
  DING_ASSIGN_OR_RETURN(last_eval_iter_, reader->ReadCount("last_eval_iter", /*least=*/-1));
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
    if (best_eval_.has_value()) result_.best = {*best_eval_, -1, played_.best};
    return absl::OkStatus();
  }
  DING_ASSIGN_OR_RETURN(const int64_t has_best_saved, reader->ReadInt("has_best_saved"));
  DING_ASSIGN_OR_RETURN(const double best_saved, reader->ReadDouble("best_saved"));
  if (has_best_saved != 0) result_.best = {best_saved, -1, played_.best};
  if (has_best_saved != 0 && reader->Info(kBestIter).ok()) {  // Older runs do not have it.
    DING_ASSIGN_OR_RETURN(result_.best->train_iter, reader->ReadCount(kBestIter, /*least=*/-1));
  }
  DING_ASSIGN_OR_RETURN(confirmations_, reader->ReadCount(kConfirmations));
  DING_ASSIGN_OR_RETURN(confirmed_eval_iter_,
                        reader->ReadCount("confirmed_eval_iter", /*least=*/-1));
  ReturnEstimate confirmation;
  DING_ASSIGN_OR_RETURN(confirmation.episodes, reader->ReadCount("confirmation_episodes"));
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
  LoadBestOfEnd();
  const auto seconds = fields.find(kWallSecondsField);
  if (seconds != fields.end() && !absl::SimpleAtod(seconds->second, &earlier_seconds_)) {
    earlier_seconds_ = 0;
  }
  resumed_ = true;
  const int64_t train_iter = work_.learner()->train_iter();
  DING_LOG_EVENT(INFO, {EventKind::kStart, "resumed", work_.env_step(), train_iter})
      << "resumed at env step " << work_.env_step() << ", train iteration " << train_iter;
  return absl::OkStatus();
}

void RunLoop::LoadBestOfEnd() {
  if (played_.best.empty()) return;
  const absl::StatusOr<CheckpointReader> kept =
      CheckpointReader::Open(absl::StrCat(options_.exp_dir, "/ckpt/", played_.best));
  if (!kept.ok()) return;
  const int64_t train_iter = work_.learner()->train_iter();
  const auto mean = kept->info().fields.find(kBestField);
  double value = 0;
  if (mean == kept->info().fields.end() || !absl::SimpleAtod(mean->second, &value) ||
      NumberIn(*kept, "train_iter") != train_iter) {
    return;
  }
  if (!result_.best.has_value() || value > result_.best->value) {
    result_.best = {value, train_iter, played_.best};
  }
}

}  // namespace ding
