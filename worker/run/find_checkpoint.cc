#include "ding_worker/worker/run/find_checkpoint.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/worker/run/policy_description.h"

namespace ding {
namespace {

constexpr char kManifest[] = "manifest.json";
constexpr char kBest[] = "ckpt_best";

bool IsCheckpoint(const std::string& path) { return PathExists(JoinPath(path, kManifest)); }

// The checkpoints of a folder; not those that are half written or set aside.
absl::StatusOr<std::vector<std::string>> CheckpointsIn(const std::string& folder) {
  std::vector<std::string> found;
  if (!IsDirectory(folder)) return found;
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    if (absl::StrContains(name, ".tmp.") || absl::StrContains(name, ".old.")) continue;
    if (IsCheckpoint(JoinPath(folder, name))) found.push_back(name);
  }
  return found;
}

absl::StatusOr<FoundCheckpoint> Newest(const std::string& folder,
                                       const std::vector<std::string>& names) {
  FoundCheckpoint newest;
  std::pair<int64_t, int64_t> progress(-1, -1);
  absl::Status damaged;
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    const absl::StatusOr<CheckpointInfo> info = CheckpointReader::ReadInfo(path);
    damaged.Update(info.status());
    if (!info.ok()) continue;
    const std::pair<int64_t, int64_t> own(CheckpointProgress(*info, "train_iter"),
                                          CheckpointProgress(*info, "env_step"));
    if (own <= progress) continue;
    progress = own;
    newest.path = path;
  }
  if (newest.path.empty()) return damaged;
  newest.note = absl::StrCat("there is no ", kBest, " in ", folder, ": taking the newest, ",
                             Basename(newest.path), " (train iteration ", progress.first, ")");
  return newest;
}

// The folders of a run with several policies.
absl::StatusOr<std::vector<std::string>> FoldersOfPolicies(const std::string& run) {
  std::vector<std::string> folders;
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(run));
  for (const std::string& name : names) {
    const std::string folder = JoinPath(run, name);
    if (!absl::StartsWith(name, "ckpt_")) continue;
    DING_ASSIGN_OR_RETURN(const std::vector<std::string> found, CheckpointsIn(folder));
    if (!found.empty()) folders.push_back(folder);
  }
  return folders;
}

}  // namespace

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& path) {
  if (!PathExists(path)) {
    return absl::NotFoundError(
        absl::StrCat("there is no '", path, "', expected the folder of a run or of a checkpoint"));
  }
  if (!IsDirectory(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is a file, expected the folder of a run or of a checkpoint"));
  }
  if (IsCheckpoint(path)) return FoundCheckpoint{path, ""};
  for (const std::string& folder : {JoinPath(path, "ckpt"), path}) {
    DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, CheckpointsIn(folder));
    const std::string best = JoinPath(folder, kBest);
    if (IsCheckpoint(best)) return FoundCheckpoint{best, ""};
    if (!names.empty()) return Newest(folder, names);
  }
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> folders, FoldersOfPolicies(path));
  if (!folders.empty()) {
    return absl::NotFoundError(absl::StrCat("the run in '", path,
                                            "' has several policies: name one of the folders ",
                                            absl::StrJoin(folders, ", ")));
  }
  return absl::NotFoundError(absl::StrCat(
      "'", path,
      "' has no checkpoints: neither in itself nor in its folder ckpt is one. A run "
      "writes its first after an evaluation, after policy.learn.learner.hook.save_ckpt_after_iter "
      "iterations, or at its end"));
}

}  // namespace ding
