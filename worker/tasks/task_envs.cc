#include "ding_worker/worker/tasks/task_envs.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/worker/tasks/parallel_envs.h"

namespace ding {
namespace {

// Envs whose processes stay when a task closes them. Launch() begins new episodes in them.
class OpenEnvs : public EnvManagerWrapper {
 public:
  using EnvManagerWrapper::EnvManagerWrapper;

  absl::Status Launch() override {
    if (!inner()->closed()) {
      const absl::Status reset = inner()->Reset();
      DING_LOG_IF(WARNING, !reset.ok()) << "starting the envs anew: " << reset.message();
      if (!reset.ok()) inner()->Close();
    }
    if (inner()->closed()) DING_RETURN_IF_ERROR(inner()->Launch());
    open_ = true;
    return absl::OkStatus();
  }
  bool closed() const override { return !open_ || inner()->closed(); }
  void Close() override { open_ = false; }

 private:
  bool open_ = false;
};

bool RunInOwnPrograms(const EnvSection& env, bool evaluates) {
  const std::string& type =
      evaluates && env.has_evaluator_type() ? env.evaluator_type() : env.type();
  return EnvGroupRegistry().Find(type).ok();
}

}  // namespace

absl::StatusOr<std::shared_ptr<EnvManager>> TaskEnvs::Make(const ExperimentConfig& config,
                                                           const CollectorTask& task,
                                                           const Clock* clock) {
  const bool evaluates = task.eval_flag();
  Kept* const kept = evaluates ? &evaluating_ : &collecting_;
  std::string key = absl::StrCat(config.SerializeAsString(), task.eval_opponent());
  if (kept->envs != nullptr && kept->key == key) {
    kept->envs->Close();  // The task before may have failed before it ran.
    return kept->envs;
  }
  kept->envs = nullptr;  // Two managers at a time would have envs of the same numbers.
  EnvsOptions options;
  options.place = place_;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<EnvManager> envs,
      evaluates ? MakeEvaluatorEnvs(config, task.eval_opponent(), config.env().evaluator_env_num(),
                                    clock, place_)
                : MakeEnvManager(config, config.env().collector_env_num(), clock, options));
  if (!RunInOwnPrograms(config.env(), evaluates))
    return std::shared_ptr<EnvManager>(std::move(envs));
  *kept = {std::move(key), std::make_shared<OpenEnvs>(std::move(envs))};
  return kept->envs;
}

}  // namespace ding
