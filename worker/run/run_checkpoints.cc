#include "ding_worker/worker/run/run_checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr absl::string_view kResumePrefix = "resume_";

std::string CheckpointFolder(const std::string& exp_dir) { return JoinPath(exp_dir, "ckpt"); }

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

// Removes a checkpoint, after moving it to a temporary name that marks it as half written. So a
// process that is killed meanwhile does not leave a part of a checkpoint under its own name.
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
                    DING_LOG(INFO) << "saved checkpoint " << path;
                    return;
                  }
                  MutexLock lock(&mutex_);
                  error_.Update(status);
                });
  return absl::OkStatus();
}

void RunCheckpoints::SaveResumePoint(int64_t position, CheckpointInfo info,
                                     std::vector<CheckpointComponent> components) {
  const auto written = [this, position](const absl::Status& status) {
    if (status.ok()) {
      RemoveOldResumePoints();
    } else {
      DING_LOG(WARNING) << "the resume point " << ResumePointName(position)
                        << " could not be written, the run goes on: " << status.message();
    }
    MutexLock lock(&mutex_);
    resume_point_error_ = status;
  };
  const absl::Status made = CreateDirectories(folder_);
  if (!made.ok()) return written(made);
  writer_.Write(JoinPath(folder_, ResumePointName(position)), std::move(info),
                std::move(components), written);
}

void RunCheckpoints::RemoveOldResumePoints() {
  const absl::StatusOr<std::vector<int64_t>> positions = ListResumePoints(folder_);
  absl::Status status = positions.status();
  for (size_t i = kResumePointsKept; positions.ok() && i < positions->size(); ++i) {
    status.Update(RemoveCheckpoint(JoinPath(folder_, ResumePointName((*positions)[i]))));
  }
  if (!status.ok()) DING_LOG(WARNING) << "an old resume point stays: " << status.message();
}

absl::Status RunCheckpoints::Flush() {
  writer_.Flush();
  MutexLock lock(&mutex_);
  DING_RETURN_IF_ERROR(error_);
  return resume_point_error_;
}

absl::StatusOr<std::optional<ResumePoint>> OpenNewestResumePoint(const std::string& exp_dir) {
  const std::string folder = CheckpointFolder(exp_dir);
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

absl::StatusOr<std::string> SetCheckpointsAside(const std::string& exp_dir) {
  const std::string folder = CheckpointFolder(exp_dir);
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
