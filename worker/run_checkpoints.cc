#include "ding_worker/worker/run_checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "glog/logging.h"

namespace ding {
namespace {

constexpr absl::string_view kResumePrefix = "resume_";

std::string CheckpointFolder(const std::string& exp_dir) { return JoinPath(exp_dir, "ckpt"); }

std::string ResumePointName(int64_t env_step) { return absl::StrCat(kResumePrefix, env_step); }

// Env steps of the resume points in `folder`, the latest first.
absl::StatusOr<std::vector<int64_t>> ListResumePoints(const std::string& folder) {
  std::vector<int64_t> env_steps;
  if (!IsDirectory(folder)) return env_steps;
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    absl::string_view number = name;
    int64_t env_step = 0;
    if (absl::ConsumePrefix(&number, kResumePrefix) && absl::SimpleAtoi(number, &env_step)) {
      env_steps.push_back(env_step);
    }
  }
  std::sort(env_steps.rbegin(), env_steps.rend());
  return env_steps;
}

// A name that says "half done" first, so that nobody who is killed meanwhile leaves half a
// checkpoint under its own name.
absl::Status RemoveCheckpoint(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::string aside, CreateTemporaryDirectory(path));
  const std::string inside = JoinPath(aside, "removed");
  DING_RETURN_IF_ERROR(RenamePath(path, inside));
  return RemoveRecursively(aside);
}

}  // namespace

RunCheckpoints::RunCheckpoints(std::string exp_dir)
    : folder_(CheckpointFolder(std::move(exp_dir))) {}

absl::Status RunCheckpoints::Save(absl::string_view name, CheckpointInfo info,
                                  std::vector<CheckpointComponent> components) {
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(error_);
  }
  DING_RETURN_IF_ERROR(CreateDirectories(folder_));
  const std::string path = JoinPath(folder_, name);
  writer_.Write(path, std::move(info), std::move(components),
                [this, path](const absl::Status& status) {
                  if (status.ok()) {
                    LOG(INFO) << "saved checkpoint " << path;
                    return;
                  }
                  MutexLock lock(&mutex_);
                  error_.Update(status);
                });
  return absl::OkStatus();
}

void RunCheckpoints::SaveResumePoint(int64_t env_step, CheckpointInfo info,
                                     std::vector<CheckpointComponent> components) {
  const auto written = [this, env_step](const absl::Status& status) {
    if (status.ok()) {
      RemoveOldResumePoints();
    } else {
      LOG(WARNING) << "the resume point at env step " << env_step
                   << " could not be written, the run goes on: " << status.message();
    }
    MutexLock lock(&mutex_);
    resume_point_error_ = status;
  };
  const absl::Status made = CreateDirectories(folder_);
  if (!made.ok()) return written(made);
  writer_.Write(JoinPath(folder_, ResumePointName(env_step)), std::move(info),
                std::move(components), written);
}

void RunCheckpoints::RemoveOldResumePoints() {
  const absl::StatusOr<std::vector<int64_t>> env_steps = ListResumePoints(folder_);
  absl::Status status = env_steps.status();
  for (size_t i = kResumePointsKept; env_steps.ok() && i < env_steps->size(); ++i) {
    status.Update(RemoveCheckpoint(JoinPath(folder_, ResumePointName((*env_steps)[i]))));
  }
  if (!status.ok()) LOG(WARNING) << "an old resume point stays: " << status.message();
}

absl::Status RunCheckpoints::Flush() {
  writer_.Flush();
  MutexLock lock(&mutex_);
  DING_RETURN_IF_ERROR(error_);
  return resume_point_error_;
}

absl::StatusOr<std::optional<CheckpointReader>> OpenNewestResumePoint(const std::string& exp_dir) {
  const std::string folder = CheckpointFolder(exp_dir);
  DING_ASSIGN_OR_RETURN(const std::vector<int64_t> env_steps, ListResumePoints(folder));
  for (const int64_t env_step : env_steps) {
    absl::StatusOr<CheckpointReader> point =
        CheckpointReader::Open(JoinPath(folder, ResumePointName(env_step)));
    if (point.ok()) return *std::move(point);
    if (!absl::IsDataLoss(point.status()) && !absl::IsNotFound(point.status())) {
      return point.status();
    }
    LOG(WARNING) << "passed over a resume point: " << point.status().message();
  }
  return std::nullopt;
}

absl::Status CleanUpCheckpoints(const std::string& exp_dir, int64_t env_step) {
  const std::string folder = CheckpointFolder(exp_dir);
  if (!IsDirectory(folder)) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (absl::StrContains(name, ".tmp.")) {
      DING_RETURN_IF_ERROR(RemoveRecursively(path));
      continue;
    }
    // Set aside where the file system cannot exchange two names (see ReplaceDirectory): all there
    // is of the checkpoint, if its successor did not come to its place.
    const size_t aside = name.find(".old.");
    if (aside == std::string::npos) continue;
    const std::string place = JoinPath(folder, name.substr(0, aside));
    DING_RETURN_IF_ERROR(PathExists(place) ? RemoveRecursively(path) : RenamePath(path, place));
  }
  DING_ASSIGN_OR_RETURN(const std::vector<int64_t> points, ListResumePoints(folder));
  for (const int64_t point : points) {
    if (point <= env_step) break;
    DING_RETURN_IF_ERROR(RemoveCheckpoint(JoinPath(folder, ResumePointName(point))));
  }
  return absl::OkStatus();
}

}  // namespace ding
