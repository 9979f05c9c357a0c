#include "ding_worker/env/env_host.h"

#include <cmath>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {

absl::StatusOr<std::unique_ptr<Env>> BuildEnv(const EnvFactory& factory) {
  std::unique_ptr<Env> env;
  DING_RETURN_IF_ERROR(CallEnv([&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(env, factory());
    if (env == nullptr) return absl::InternalError("the factory returned a null env");
    return ValidateEnvSpec(env->spec());
  }));
  return env;
}

absl::Status BuiltAnew(const absl::Status& cause) {
  if (cause.ok()) return cause;
  return absl::Status(
      cause.code(),
      absl::StrCat(cause.message(),
                   "\nThe env is built anew: what it kept from episode to episode, such as the "
                   "level of a curriculum, is lost. Only resume points have it, if the env has "
                   "get_state() and set_state(state) or, in C++, SaveState() and LoadState()"));
}

absl::Status CheckSameEnvSpec(const EnvSpec& expected, const EnvSpec& found) {
  DING_RETURN_IF_ERROR(
      CheckSameLayout(*expected.observation, *found.observation, "its observation"));
  DING_RETURN_IF_ERROR(CheckSameLayout(*expected.action, *found.action, "its action"));
  if ((found.info == nullptr) != (expected.info == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("it declares ", found.info == nullptr ? "no info fields" : "info fields",
                     ", expected ", expected.info == nullptr ? "none" : "those of env 0"));
  }
  if (expected.info != nullptr) {
    DING_RETURN_IF_ERROR(CheckSameLayout(*expected.info, *found.info, "its info"));
  }
  if (found.reward_shape != expected.reward_shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("its reward is float32", ShapeString(found.reward_shape), ", expected float32",
                     ShapeString(expected.reward_shape)));
  }
  if (*found.observation != *expected.observation || *found.action != *expected.action) {
    return absl::InvalidArgumentError(
        absl::StrCat("its bounds differ: found ", found.observation->DebugString(), "\n",
                     found.action->DebugString(), "\nexpected ",
                     expected.observation->DebugString(), "\n", expected.action->DebugString()));
  }
  return absl::OkStatus();
}

absl::StatusOr<BatchBuilder> ZeroedRows(const SpecPtr& spec, int64_t rows) {
  DING_ASSIGN_OR_RETURN(BatchBuilder block, BatchBuilder::Create(spec, rows));
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(block.view().raw_column(i), 0, static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return block;
}

absl::Status CheckFiniteRow(const RowRef& row) {
  const Spec& spec = row.spec();
  for (int field = 0; field < spec.size(); ++field) {
    if (spec.field(field).dtype != DType::kFloat32) continue;
    const absl::Span<const float> values = row.field<float>(field);
    const int64_t bad = FindNonFinite(values);
    if (bad < 0) continue;
    return absl::DataLossError(absl::StrCat("observation field '", spec.field(field).name,
                                            "', element ", bad, ", is ",
                                            values[static_cast<size_t>(bad)]));
  }
  return absl::OkStatus();
}

absl::Status CheckFiniteStep(const RowRef& row, const StepResult& result) {
  if (!std::isfinite(result.reward)) {
    return absl::DataLossError(absl::StrCat("the reward is ", result.reward));
  }
  for (size_t i = 0; i < result.reward_components.size(); ++i) {
    if (std::isfinite(result.reward_components[i])) continue;
    return absl::DataLossError(
        absl::StrCat("component ", i, " of the reward is ", result.reward_components[i]));
  }
  return CheckFiniteRow(row);
}

absl::Status EnvHost::Build() {
  if (on_attempt_) on_attempt_(EnvCall::kBuild);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Env> env, BuildEnv(factory_));
  DING_RETURN_IF_ERROR(
      Annotate(CheckSameEnvSpec(*expected_, env->spec()), "its spec differs from that of env 0"));
  Adopt(std::move(env));
  return absl::OkStatus();
}

absl::Status EnvHost::TryReset(const EpisodeStart& start, const RowRef& obs) {
  if (env_ == nullptr) DING_RETURN_IF_ERROR(Build());
  if (on_attempt_) on_attempt_(EnvCall::kReset);
  DING_RETURN_IF_ERROR(CallEnv([&] { return env_->Reset(start, obs); }));
  return CheckFiniteRow(obs);
}

absl::Status EnvHost::Reset(const EpisodeStart& start, const RowRef& obs, int attempts_made) {
  absl::Status status;
  for (int attempt = attempts_made; attempt < options_->max_retry; ++attempt) {
    if (attempt > 0) options_->sleep(options_->retry_waiting_time);
    status = TryReset(start, obs);
    if (status.ok() || absl::IsOutOfRange(status)) return status;
    if (options_->retry_type == EnvRetryType::kRenew) env_.reset();
  }
  return status;
}

absl::Status EnvHost::RetryStep(const RowView& action, const RowRef& obs, absl::Status failure,
                                StepResult* result) {
  if (options_->drop_not_finite && absl::IsDataLoss(failure)) {
    ClearStepResult(*expected_, result);
    void_cause_ = std::move(failure);
    result->abnormal = true;
    return absl::OkStatus();
  }
  if (IsBadValue(failure)) return failure;
  for (int attempt = 1; attempt < options_->max_retry; ++attempt) {
    options_->sleep(options_->retry_waiting_time);
    ClearStepResult(*expected_, result);
    if (options_->retry_type == EnvRetryType::kRenew) {
      // The next reset builds the env.
      env_.reset();
      void_cause_ = std::move(failure);
      result->abnormal = true;
      return absl::OkStatus();
    }
    if (on_attempt_) on_attempt_(EnvCall::kStep);
    failure = CallEnv([&] { return env_->Step(action, obs, result); });
    if (failure.ok()) return failure;
  }
  return failure;
}

absl::StatusOr<Image> EnvHost::Render() {
  if (env_ == nullptr)
    return absl::FailedPreconditionError("the env is not built yet; call Reset() first");
  Image image;
  DING_RETURN_IF_ERROR(CallEnv([&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(image, env_->Render());
    return absl::OkStatus();
  }));
  return image;
}

absl::Status EnvHost::SaveState(StateWriter* writer) const {
  return CallEnv([&] { return env_->SaveState(writer); });
}

absl::Status EnvHost::LoadState(StateReader* reader) {
  if (env_ == nullptr) DING_RETURN_IF_ERROR(Build());
  return CallEnv([&] { return env_->LoadState(reader); });
}

absl::StatusOr<std::unique_ptr<LocalEnvs>> LocalEnvs::Create(const EnvRetryOptions& options,
                                                             std::vector<EnvFactory> factories) {
  if (factories.empty())
    return absl::InvalidArgumentError(
        "env manager: there are no env factories, expected at least one");
  absl::StatusOr<std::unique_ptr<Env>> first = BuildEnv(factories[0]);
  if (!first.ok()) return Annotate(first.status(), "env 0");
  EnvSpec spec = (*first)->spec();
  DING_ASSIGN_OR_RETURN(BatchBuilder rows, ZeroedRows(spec.observation, factories.size()));
  auto envs = absl::WrapUnique(new LocalEnvs(options, std::move(spec), std::move(rows)));
  envs->hosts_.reserve(factories.size());
  for (EnvFactory& factory : factories) {
    envs->hosts_.emplace_back(std::move(factory), &envs->spec_, &envs->options_);
  }
  envs->hosts_[0].Adopt(*std::move(first));
  return envs;
}

void LocalEnvs::End() {
  for (EnvHost& host : hosts_) host.End();
}

}  // namespace ding
