#include "ding_worker/env/base_env_manager.h"

#include <utility>

#include "absl/base/optimization.h"
#include "absl/memory/memory.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env_host.h"

namespace ding {

absl::StatusOr<std::unique_ptr<BaseEnvManager>> BaseEnvManager::Create(
    Options options, std::vector<EnvFactory> factories) {
  DING_RETURN_IF_ERROR(CheckOptions(options, {}));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<LocalEnvs> envs,
                        LocalEnvs::Create(options, std::move(factories)));
  DING_ASSIGN_OR_RETURN(Blocks blocks, Blocks::Create(envs->spec(), envs->size()));
  return absl::WrapUnique(
      new BaseEnvManager(std::move(options), std::move(blocks), std::move(envs)));
}

BaseEnvManager::BaseEnvManager(Options options, Blocks blocks, std::unique_ptr<LocalEnvs> envs)
    : EnvManagerCore(std::move(options), envs->spec(), envs->rows(), std::move(blocks)),
      envs_(std::move(envs)) {}

absl::Status BaseEnvManager::StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions,
                                      absl::Span<const int>* answered) {
  // `actions` may have further columns; the env gets its own only. A step of no envs may come
  // without columns.
  const ColumnsView own_actions =
      env_ids.empty() ? ColumnsView() : actions.Fields(env_spec().action.get(), 0);
  const MutableColumnsView obs = rows();
  const EnvSpec& spec = env_spec();
  EnvHost* const hosts = envs_->hosts().data();
  for (size_t i = 0; i < env_ids.size(); ++i) {
    const int env_id = env_ids[i];
    EnvHost& host = hosts[env_id];
    ClearStepResult(spec, &result_);
    const absl::Status stepped =
        host.Step(own_actions.row(static_cast<int64_t>(i)), obs.row(env_id), &result_);
    if (ABSL_PREDICT_FALSE(!stepped.ok())) {
      return FailStep(env_ids, i, i, StepFailed(env_id, stepped));
    }
    if (ABSL_PREDICT_TRUE(AccountReward(i, env_id, result_))) continue;
    const absl::Status accounted = AccountRest(i, env_id, host.TakeVoidCause(), &result_);
    if (!accounted.ok()) return FailStep(env_ids, i, i, accounted);
  }
  *answered = env_ids;
  return absl::OkStatus();
}

absl::Status BaseEnvManager::ResetEnvs(absl::Span<const int> env_ids) {
  for (const int env_id : env_ids) {
    EpisodeStart start;
    absl::Status status;
    do {
      start = NextEpisode(env_id);
      status = envs_->host(env_id).Reset(start, rows().row(env_id));
    } while (SkipsEpisode(env_id, status));
    DING_RETURN_IF_ERROR(Began(env_id, start, status));
  }
  return absl::OkStatus();
}

absl::StatusOr<Image> BaseEnvManager::RenderEnv(int env_id) { return envs_->host(env_id).Render(); }

absl::Status BaseEnvManager::SaveEnv(int env_id, StateWriter* writer) const {
  return envs_->host(env_id).SaveState(writer);
}

absl::Status BaseEnvManager::LoadEnv(int env_id, StateReader* reader) {
  return envs_->host(env_id).LoadState(reader);
}

void BaseEnvManager::EndEnvs() { envs_->End(); }

}  // namespace ding
