#include "ding_worker/worker/tasks/run_history.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/worker/run_folder/paths.h"

namespace ding {
namespace {

constexpr absl::string_view kFolder = "ckpt";

std::string FieldOf(const CheckpointInfo& info, absl::string_view name) {
  const auto found = info.fields.find(std::string(name));
  return found == info.fields.end() ? "" : found->second;
}

// Returns the folders of checkpoints: ckpt/, or ckpt_<policy>/ of each policy.
absl::StatusOr<std::vector<std::string>> CheckpointFolders(const std::string& exp_dir) {
  std::vector<std::string> folders;
  if (!IsDirectory(exp_dir)) return folders;
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(exp_dir));
  for (const std::string& name : names) {
    const std::string path = JoinPath(exp_dir, name);
    if (absl::StartsWith(name, kFolder) && IsDirectory(path)) folders.push_back(path);
  }
  return folders;
}

int64_t TrainIterOf(const StateRecord& state, const std::string& policy_id) {
  int64_t train_iter = state.policy_train_iter().empty() ? state.train_iter() : 0;
  for (const TrainIterRecord& trained : state.policy_train_iter()) {
    if (trained.policy_id() == policy_id) train_iter = trained.train_iter();
  }
  for (const PolicyRecord& policy : state.policy()) {
    if (policy.policy_id() == policy_id) train_iter = std::max(train_iter, policy.newest_iter());
  }
  return train_iter;
}

// Returns a checkpoint in the folders, the learner's if there is one; empty: there is none.
absl::StatusOr<std::string> FindAny(const std::vector<std::string>& folders) {
  std::string any;
  for (const std::string& folder : folders) {
    DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
    for (const std::string& name : names) {
      if (absl::StrContains(name, ".tmp.")) continue;
      if (any.empty() || name == kResumeCheckpoint) any = JoinPath(folder, name);
    }
  }
  return any;
}

absl::Status LostJournal(const std::string& exp_dir, const std::string& checkpoint) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the journal of the run in '", exp_dir, "' is empty, but the run has the checkpoint '",
      checkpoint,
      "': what the coordinator knew of the run is lost, and it cannot be resumed. A new run can go "
      "on from the checkpoint: --set policy.learn.learner.hook.load_ckpt_before_run=",
      ShellWord(checkpoint), " --set policy.learn.resume_training=true"));
}

}  // namespace

bool MayBeOf(const CheckpointInfo& info, const std::string& policy_id) {
  const std::string its_policy = FieldOf(info, kPolicyField);
  return its_policy.empty() || its_policy == policy_id;
}

absl::StatusOr<std::set<std::string>> CheckHistory(const std::string& exp_dir,
                                                   const std::string& run, const Journal& journal) {
  DING_ASSIGN_OR_RETURN(const std::optional<RecordedRun> recorded, journal.ReadRun());
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> folders, CheckpointFolders(exp_dir));
  if (!recorded.has_value()) {
    DING_ASSIGN_OR_RETURN(const std::string checkpoint, FindAny(folders));
    if (!checkpoint.empty()) return LostJournal(exp_dir, checkpoint);
    return std::set<std::string>();
  }
  const StateRecord& state = recorded->state;
  if (!state.run().empty() && state.run() != run) {
    return absl::FailedPreconditionError(absl::StrCat("the journal of the run in '", exp_dir,
                                                      "' is that of run '", state.run(),
                                                      "', expected '", run, "'"));
  }
  std::set<std::string> policies;
  bool has_learner = false;
  for (const std::string& folder : folders) {
    const std::string path = JoinPath(folder, kResumeCheckpoint);
    if (!PathExists(path)) continue;
    has_learner = true;
    const absl::StatusOr<CheckpointInfo> info = CheckpointReader::ReadInfo(path);
    if (!info.ok()) continue;  // The learner returns the error.
    const std::string its_run = FieldOf(*info, kRunField);
    if (!its_run.empty() && its_run != run) {
      return absl::FailedPreconditionError(
          absl::StrCat("checkpoint '", path, "' is of run '", its_run, "', expected '", run,
                       "': move it out of the folder of this run"));
    }
    const std::string policy_id = FieldOf(*info, kPolicyField);
    if (policy_id.empty()) continue;
    policies.insert(policy_id);
    int64_t saved = 0;
    const int64_t known = TrainIterOf(state, policy_id);
    if (!absl::SimpleAtoi(FieldOf(*info, "train_iter"), &saved) || saved <= known) continue;
    DING_LOG(WARNING) << "the journal of the run ends at train iteration " << known << " of "
                      << policy_id << ", but checkpoint '" << path << "' is of iteration " << saved
                      << ": the learner goes on from there, and env steps are counted from "
                      << state.envstep() << " on";
  }
  DING_LOG_IF(WARNING, !has_learner && state.train_iter() > 0)
      << "the journal of the run ends at train iteration " << state.train_iter()
      << ", but there is no checkpoint '" << kResumeCheckpoint << "' in '" << exp_dir
      << "': the learner begins anew, and goes on with the rows that are there";
  return policies;
}

absl::StatusOr<int64_t> FirstEnvStep(const ExperimentConfig& config, const Journal* journal) {
  const LearnSection& learn = config.policy().learn();
  const std::string& path = learn.learner().hook().load_ckpt_before_run();
  if (!learn.resume_training() || path.empty()) return 0;
  if (journal != nullptr) {
    DING_ASSIGN_OR_RETURN(const std::optional<RecordedRun> run, journal->ReadRun());
    if (run.has_value()) return 0;
  }
  DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, OpenTrainCheckpoint(path));
  int64_t env_step = 0;
  if (!absl::SimpleAtoi(FieldOf(checkpoint.info(), "env_step"), &env_step)) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint '", path, "' does not say how many env steps its run had, but ",
                     "policy.learn.resume_training is true: expected one that a learner saved"));
  }
  return std::max<int64_t>(0, env_step);  // -1: the learner had not trained
}

}  // namespace ding
