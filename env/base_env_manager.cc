#include "ding_worker/env/base_env_manager.h"

#include <typeinfo>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/base/optimization.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/vector_env.h"

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
      envs_(std::move(envs)),
      builds_(static_cast<size_t>(env_num())) {
  vector_envs_.reserve(builds_.size());  // so that no step allocates
}

bool BaseEnvManager::IsStepOfAll(absl::Span<const int> env_ids) {
  if (!vector_envs_known_) {
    vector_envs_.clear();
    for (EnvHost& host : envs_->hosts()) {
      builds_[vector_envs_.size()] = host.builds();
      vector_envs_.push_back(dynamic_cast<VectorEnv*>(host.env()));
    }
    const VectorEnv* const first = vector_envs_[0];
    const bool of_one_class = absl::c_all_of(vector_envs_, [first](const VectorEnv* env) {
      return env != nullptr && first != nullptr && typeid(*env) == typeid(*first);
    });
    if (!of_one_class || has_more()) vector_envs_.clear();
    vector_envs_known_ = true;
  }
  return !vector_envs_.empty() && absl::c_equal(env_ids, all_ids());
}

absl::StatusOr<bool> BaseEnvManager::StepAll(const ColumnsView& actions) {
  const VectorEnv::AllEnvs all = {vector_envs_, actions,      rows(),
                                  rewards(),    terminated(), truncated()};
  bool stepped = false;
  const absl::Status called = CallEnv([&] {
    stepped = vector_envs_[0]->StepAll(all);
    return absl::OkStatus();
  });
  if (ABSL_PREDICT_FALSE(!called.ok())) {
    ForgetEnds();
    return FailStep(all_ids(), 0, vector_envs_.size(),
                    Annotate(called, absl::StrCat(EnvName(0), ": StepAll(), for all envs")));
  }
  if (!stepped || ABSL_PREDICT_TRUE(!AccountRewards())) return stepped;
  for (const int env_id : all_ids()) {
    const auto row = static_cast<size_t>(env_id);
    if (ABSL_PREDICT_TRUE((terminated()[row] | truncated()[row]) == 0)) continue;
    ClearStepResult(env_spec(), &result_);
    result_.terminated = terminated()[row] != 0;
    result_.truncated = truncated()[row] != 0;
    absl::Status status = CallEnv([&] {
      vector_envs_[row]->SetEndInfo(&result_.info);
      return absl::OkStatus();
    });
    status = status.ok() ? AccountRest(row, env_id, absl::OkStatus(), &result_)
                         : Annotate(status, EnvName(env_id));
    if (status.ok()) continue;
    ForgetEnds();
    return FailStep(all_ids(), row, vector_envs_.size(), status);
  }
  return true;
}

absl::Status BaseEnvManager::StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions,
                                      absl::Span<const int>* answered) {
  // `actions` may have further columns; the env gets its own only. A step of no envs may come
  // without columns.
  const ColumnsView own_actions =
      env_ids.empty() ? ColumnsView() : actions.Fields(env_spec().action.get(), 0);
  *answered = env_ids;
  if (IsStepOfAll(env_ids)) {
    DING_ASSIGN_OR_RETURN(const bool stepped, StepAll(own_actions));
    if (stepped) return absl::OkStatus();
  }
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
  return absl::OkStatus();
}

absl::Status BaseEnvManager::ResetEnvs(absl::Span<const int> env_ids) {
  for (const int env_id : env_ids) {
    EpisodeStart start;
    absl::Status status;
    do {
      start = NextEpisode(env_id);
      status = envs_->host(env_id).Reset(start, rows().row(env_id));
      NoteBuild(env_id);
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
  const absl::Status status = envs_->host(env_id).LoadState(reader);
  NoteBuild(env_id);
  return status;
}

void BaseEnvManager::EndEnvs() { envs_->End(); }

}  // namespace ding
