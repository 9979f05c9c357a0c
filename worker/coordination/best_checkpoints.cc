#include "ding_worker/worker/coordination/best_checkpoints.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/task_config.h"

namespace ding {
namespace {

// By the mean return. The learner of a run with a data set saves the best one by the metric.
std::string NameOf(const ExperimentConfig& config) {
  return IsSupervised(config) ? "ckpt_best_return" : "ckpt_best";
}

}  // namespace

BestCheckpoints::BestCheckpoints(const ExperimentConfig& config, std::string exp_dir, Store* store)
    : config_(config), exp_dir_(std::move(exp_dir)), store_(store) {}

void BestCheckpoints::Update(const RunStatus& status) {
  if (since_failure_.has_value() && since_failure_->Elapsed() < SaveOutage::kRetryPeriod) return;
  SaveNew(status);
}

absl::Status BestCheckpoints::Finish(const RunStatus& status, const std::function<bool()>& stop) {
  const auto save = [&]() -> absl::Status {
    SaveNew(status);
    return failed_.empty() ? absl::OkStatus() : failed_.begin()->second;
  };
  return Annotate(outage_.Wait(NameOf(config_), save, stop),
                  absl::StrCat(NameOf(config_), " is not saved"));
}

void BestCheckpoints::SaveNew(const RunStatus& status) {
  since_failure_.reset();
  for (const BestPolicy& best : status.best_policy()) {
    std::string& seen = seen_[best.name()];
    if (seen == best.policy().key()) continue;
    const absl::Status saved = Save(best);
    failed_.erase(best.name());
    // A version that the store has lost is no file that cannot be written.
    if (SaveOutage::MayPass(saved) || absl::IsResourceExhausted(saved)) {
      failed_.emplace(best.name(), saved);
    }
    const std::string what = absl::StrCat(NameOf(config_), " of ", best.policy().policy_id());
    if (SaveOutage::MayPass(saved)) {
      // If it lasts for too long, the learner ends the run.
      outage_.Note(what, saved).IgnoreError();
      since_failure_.emplace(Clock::Real());
      continue;
    }
    outage_.Note(what, absl::OkStatus()).IgnoreError();
    seen = best.policy().key();
    if (!saved.ok()) {
      DING_LOG(WARNING) << NameOf(config_) << " of version " << best.policy().version() << " of "
                        << best.policy().policy_id() << " is not saved: " << saved.message();
    }
  }
}

absl::Status BestCheckpoints::Save(const BestPolicy& best) const {
  LearnerTask task;
  task.set_task_id(best.policy().policy_id());
  *task.mutable_setting() = best.setting();
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config, ConfigOfTask(config_, task));
  DING_ASSIGN_OR_RETURN(const EnvSpec env, SpecOfEnv(config, Clock::Real()));
  PolicyModes modes;
  modes.collect = modes.eval = modes.command = false;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> policy, MakePolicy(config, env, modes));
  std::string bytes;
  DING_RETURN_IF_ERROR(store_->Get(best.policy().key(), &bytes));
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<StateReader> model,
                        DecodeState(bytes, best.policy().key()));
  LearnMode* const learn = policy->learn_mode();
  DING_RETURN_IF_ERROR(learn->LoadModel(model.get()));
  const std::string folder =
      JoinPath(exp_dir_, best.name().empty() ? "ckpt" : absl::StrCat("ckpt_", best.name()));
  DING_RETURN_IF_ERROR(CreateDirectories(folder));
  CheckpointInfo info = CheckpointInfoOf(best.policy().train_iter(), best.env_step());
  DescribeRun(config, env, &info);
  const std::string path = JoinPath(folder, NameOf(config_));
  DING_RETURN_IF_ERROR(WriteCheckpoint(path, info, {{kModelComponent, [learn](StateWriter* writer) {
                                                       return learn->SaveModel(writer);
                                                     }}}));
  LogSavedCheckpoint(
      path, info,
      absl::StrCat(", with a mean ",
                   config_.env().best_by().empty() ? "return" : config_.env().best_by(), " of ",
                   best.mean_return()));
  return absl::OkStatus();
}

}  // namespace ding
