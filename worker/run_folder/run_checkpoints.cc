#include "ding_worker/worker/run_folder/run_checkpoints.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr absl::string_view kResumePrefix = "resume_";
constexpr absl::string_view kNumberedPrefix = "iteration_";

std::string CheckpointsFolder(const std::string& exp_dir) { return JoinPath(exp_dir, "ckpt"); }

std::string ResumePointName(int64_t position) { return absl::StrCat(kResumePrefix, position); }

// Positions of the resume points in `folder`, the latest first.
absl::StatusOr<std::vector<int64_t>> ListResumePoints(const std::string& folder) {
  std::vector<int64_t> positions;
  if (!IsDirectory(folder)) return positions;
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    absl::string_view number = name;
    int64_t position = 0;
    if (absl::ConsumePrefix(&number, kResumePrefix) && absl::SimpleAtoi(number, &position)) {
      positions.push_back(position);
    }
  }
  std::sort(positions.rbegin(), positions.rend());
  return positions;
}

// Returns the number in a field of a checkpoint; -1 if there is none.
int64_t NumberIn(const CheckpointInfo& info, const std::string& name) {
  const auto found = info.fields.find(name);
  int64_t number = 0;
  return found != info.fields.end() && absl::SimpleAtoi(found->second, &number) ? number : -1;
}

// Removes a checkpoint, after moving it to a temporary name that marks it as half written. So a
// process that is killed meanwhile does not leave a part of a checkpoint under its own name.
absl::Status RemoveCheckpoint(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::string aside, CreateTemporaryDirectory(path));
  const std::string inside = JoinPath(aside, "removed");
  DING_RETURN_IF_ERROR(RenamePath(path, inside));
  return RemoveRecursively(aside);
}

}  // namespace

// A checkpoint that is to be written.
struct RunCheckpoints::Job {
  std::string key;  // its name in the log; a newer job with the same key takes its place
  std::string path;
  bool is_resume_point = false;
  CheckpointInfo info;
  std::vector<CheckpointComponent> components;
  int64_t number = 0;
};

RunCheckpoints::RunCheckpoints(const std::string& exp_dir, const Clock* clock)
    : folder_(CheckpointsFolder(exp_dir)), outage_(clock), clock_(clock), since_try_(clock) {}

absl::Status RunCheckpoints::Save(absl::string_view name, CheckpointInfo info,
                                  std::vector<CheckpointComponent> components) {
  {
    const MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(error_);
  }
  Start(std::make_shared<Job>(Job{absl::StrCat("checkpoint ", name), JoinPath(folder_, name),
                                  /*is_resume_point=*/false, std::move(info),
                                  std::move(components)}));
  return absl::OkStatus();
}

void RunCheckpoints::SaveResumePoint(int64_t position, CheckpointInfo info,
                                     std::vector<CheckpointComponent> components) {
  Start(
      std::make_shared<Job>(Job{"a resume point", JoinPath(folder_, ResumePointName(position)),
                                /*is_resume_point=*/true, std::move(info), std::move(components)}));
}

void RunCheckpoints::Start(std::shared_ptr<Job> job) {
  {
    const MutexLock lock(&mutex_);
    job->number = ++jobs_;
    newest_[job->key] = job;
    if (unsaved_.erase(job->key) > 0) since_try_ = Timer(clock_);
  }
  Write(job);
}

void RunCheckpoints::Write(const std::shared_ptr<const Job>& job) {
  const absl::Status made = CreateDirectories(folder_);
  if (!made.ok()) return Finish(job, made);
  writer_.Write(job->path, job->info, job->components,
                [this, job](const absl::Status& status) { Finish(job, status); });
}

void RunCheckpoints::Finish(const std::shared_ptr<const Job>& job, const absl::Status& status) {
  if (status.ok() && job->is_resume_point) RemoveOldResumePoints();
  if (status.ok() && !job->is_resume_point) LogSavedCheckpoint(job->path, job->info);
  const MutexLock lock(&mutex_);
  const auto newest = newest_.find(job->key);
  if (newest == newest_.end() || newest->second != job) return;  // A newer one is under way.
  error_.Update(outage_.Note(job->key, status));
  if (status.ok()) {
    newest_.erase(newest);
    has_given_up_ = false;
    return;
  }
  failure_ = status;
  unsaved_[job->key] = job;
  LimitUnsaved();
}

void RunCheckpoints::LimitUnsaved() {
  size_t numbered = 0;
  auto oldest = unsaved_.end();
  for (auto it = unsaved_.begin(); it != unsaved_.end(); ++it) {
    if (!absl::StrContains(it->first, kNumberedPrefix)) continue;
    ++numbered;
    if (oldest == unsaved_.end() || it->second->number < oldest->second->number) oldest = it;
  }
  if (numbered <= kMaxUnsaved) return;
  DING_LOG_IF(WARNING, !has_given_up_)
      << oldest->first << " is given up, as others will be: there are " << kMaxUnsaved
      << " newer ones that could not be written";
  has_given_up_ = true;
  outage_.Forget(oldest->first);
  newest_.erase(oldest->first);
  unsaved_.erase(oldest);
}

absl::Status RunCheckpoints::Retry() {
  {
    const MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(error_);
    if (unsaved_.empty() || since_try_.Elapsed() < SaveOutage::kRetryPeriod) {
      return absl::OkStatus();
    }
  }
  if (writer_.idle()) WriteUnsaved();
  return absl::OkStatus();
}

void RunCheckpoints::WriteUnsaved() {
  std::map<std::string, std::shared_ptr<const Job>> jobs;
  {
    const MutexLock lock(&mutex_);
    since_try_ = Timer(clock_);
    jobs.swap(unsaved_);
  }
  for (const auto& [key, job] : jobs) Write(job);
}

absl::Status RunCheckpoints::Flush() {
  writer_.Flush();
  const MutexLock lock(&mutex_);
  DING_RETURN_IF_ERROR(error_);
  return unsaved_.empty() ? absl::OkStatus() : failure_;
}

absl::Status RunCheckpoints::Flush(const std::function<bool()>& stop) {
  const auto flush = [this] {
    const absl::Status flushed = Flush();
    if (flushed.ok()) return flushed;
    WriteUnsaved();
    return Flush();
  };
  return outage_.Wait("the last checkpoint", flush, stop);
}

void RunCheckpoints::RemoveOldResumePoints() {
  const absl::StatusOr<std::vector<int64_t>> positions = ListResumePoints(folder_);
  absl::Status status = positions.status();
  for (size_t i = kResumePointsKept; positions.ok() && i < positions->size(); ++i) {
    status.Update(RemoveCheckpoint(JoinPath(folder_, ResumePointName((*positions)[i]))));
  }
  if (!status.ok()) DING_LOG(WARNING) << "an old resume point stays: " << status.message();
}

void LogSavedCheckpoint(const std::string& path, const CheckpointInfo& info,
                        absl::string_view more) {
  DING_LOG_EVENT(INFO, {EventKind::kCheckpoint, std::string(Basename(path)),
                        NumberIn(info, "env_step"), NumberIn(info, "train_iter")})
      << "saved checkpoint " << path << more;
}

absl::StatusOr<std::optional<ResumePoint>> OpenNewestResumePoint(const std::string& exp_dir) {
  const std::string folder = CheckpointsFolder(exp_dir);
  DING_ASSIGN_OR_RETURN(const std::vector<int64_t> positions, ListResumePoints(folder));
  for (const int64_t position : positions) {
    absl::StatusOr<CheckpointReader> point =
        CheckpointReader::Open(JoinPath(folder, ResumePointName(position)));
    if (point.ok()) return ResumePoint{*std::move(point), position};
    if (!absl::IsDataLoss(point.status()) && !absl::IsNotFound(point.status())) {
      return point.status();
    }
    DING_LOG(WARNING) << "passed over a resume point: " << point.status().message();
  }
  return std::nullopt;
}

namespace {

// Removes a half-written checkpoint. A process that was given up may still be alive and write to
// it: what it finishes later must be complete, or must not get the final name. So the folder is
// first moved away in one step, and then its content is removed.
absl::Status RemoveHalfWritten(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::string aside, CreateTemporaryDirectory(path));
  const absl::Status moved = RenamePath(path, JoinPath(aside, "removed"));
  const absl::Status removed = RemoveRecursively(aside);
  return moved.ok() || absl::IsNotFound(moved) ? removed : moved;
}

}  // namespace

absl::StatusOr<std::vector<CheckpointComponent>> CopyComponents(
    std::vector<CheckpointComponent> components) {
  for (CheckpointComponent& component : components) {
    DING_ASSIGN_OR_RETURN(component.save, CopyState(component.save));
  }
  return components;
}

absl::StatusOr<std::string> SetCheckpointsAside(const std::string& exp_dir) {
  const std::string folder = CheckpointsFolder(exp_dir);
  if (!IsDirectory(folder)) return std::string();
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  if (names.empty()) return std::string();
  int number = 1;
  while (PathExists(absl::StrCat(folder, ".before_", number))) ++number;
  const std::string aside = absl::StrCat(folder, ".before_", number);
  DING_RETURN_IF_ERROR(RenamePath(folder, aside));
  return aside;
}

absl::Status CleanUpCheckpoints(const std::string& exp_dir, int64_t position,
                                absl::string_view folder_name) {
  const std::string folder = JoinPath(exp_dir, folder_name);
  if (!IsDirectory(folder)) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (absl::StrContains(name, ".tmp.")) {
      DING_RETURN_IF_ERROR(RemoveHalfWritten(path));
      continue;
    }
    // On a file system that cannot exchange two names (see ReplaceDirectory), the old checkpoint is
    // set aside under this name. If its successor did not get into its place, it is the only copy
    // of the checkpoint.
    const size_t aside = name.find(".old.");
    if (aside == std::string::npos) continue;
    const std::string place = JoinPath(folder, name.substr(0, aside));
    DING_RETURN_IF_ERROR(PathExists(place) ? RemoveRecursively(path) : RenamePath(path, place));
  }
  DING_ASSIGN_OR_RETURN(const std::vector<int64_t> points, ListResumePoints(folder));
  for (const int64_t point : points) {
    if (point <= position) break;
    DING_RETURN_IF_ERROR(RemoveCheckpoint(JoinPath(folder, ResumePointName(point))));
  }
  return absl::OkStatus();
}

}  // namespace ding
