#include "ding_worker/env/base_env_manager.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"

namespace ding {
namespace {

// The one place where exceptions of a user's env stop.
template <typename Call>
absl::Status CallEnv(Call&& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("threw an exception: ", e.what()));
  } catch (...) {
    return absl::InternalError("threw something that is no std::exception");
  }
}

absl::Status CheckOptions(const BaseEnvManager::Options& options) {
  std::vector<std::string> problems;
  if (options.episode_num < 0) {
    problems.push_back(
        absl::StrCat("episode_num is ", options.episode_num, ", expected 0 (no limit) or more"));
  }
  if (options.max_retry < 1) {
    problems.push_back(
        absl::StrCat("max_retry is ", options.max_retry, ", expected at least 1 attempt"));
  }
  if (options.retry_waiting_time < absl::ZeroDuration() ||
      options.retry_waiting_time == absl::InfiniteDuration()) {
    problems.push_back(absl::StrCat("retry_waiting_time is ",
                                    absl::FormatDuration(options.retry_waiting_time),
                                    ", expected 0 or more seconds"));
  }
  if (options.max_abnormal_steps < 0) {
    problems.push_back(
        absl::StrCat("max_abnormal_steps is ", options.max_abnormal_steps, ", expected 0 or more"));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("env manager: ", absl::StrJoin(problems, "; ")));
}

absl::StatusOr<std::unique_ptr<Env>> CallFactory(const EnvFactory& factory) {
  std::unique_ptr<Env> env;
  DING_RETURN_IF_ERROR(CallEnv([&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(env, factory());
    if (env == nullptr) return absl::InternalError("the factory made no env");
    return ValidateEnvSpec(env->spec());
  }));
  return env;
}

absl::StatusOr<BatchBuilder> ZeroedRows(const SpecPtr& spec, int64_t rows) {
  DING_ASSIGN_OR_RETURN(BatchBuilder block, BatchBuilder::Create(spec, rows));
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(block.view().raw_column(i), 0, static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return block;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BaseEnvManager>> BaseEnvManager::Create(
    Options options, std::vector<EnvFactory> factories) {
  DING_RETURN_IF_ERROR(CheckOptions(options));
  if (factories.empty()) return absl::InvalidArgumentError("env manager: there are no envs");
  absl::StatusOr<std::unique_ptr<Env>> first = CallFactory(factories[0]);
  if (!first.ok()) return Annotate(first.status(), "env 0");
  const EnvSpec spec = (*first)->spec();
  const int64_t rows = static_cast<int64_t>(factories.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder seen, ZeroedRows(spec.observation, rows));
  DING_ASSIGN_OR_RETURN(BatchBuilder ready, ZeroedRows(spec.observation, rows));
  DING_ASSIGN_OR_RETURN(BatchBuilder final, ZeroedRows(spec.observation, rows));
  std::unique_ptr<BaseEnvManager> manager(new BaseEnvManager(
      std::move(options), spec, std::move(seen), std::move(ready), std::move(final)));
  manager->slots_.resize(factories.size());
  manager->all_ids_.resize(factories.size());
  std::iota(manager->all_ids_.begin(), manager->all_ids_.end(), 0);
  for (size_t i = 0; i < factories.size(); ++i) {
    manager->slots_[i].factory = std::move(factories[i]);
    manager->slots_[i].seed = i;
    manager->slots_[i].other_returns.resize(static_cast<size_t>(spec.players - 1));
  }
  manager->slots_[0].env = *std::move(first);
  manager->ReserveStep();
  return manager;
}

BaseEnvManager::BaseEnvManager(Options options, EnvSpec spec, BatchBuilder rows,
                               BatchBuilder ready_rows, BatchBuilder final_rows)
    : options_(std::move(options)),
      spec_(std::move(spec)),
      rows_(std::move(rows)),
      ready_rows_(std::move(ready_rows)),
      final_rows_(std::move(final_rows)) {
  for (int i = 0; i < spec_.observation->size(); ++i) {
    if (spec_.observation->field(i).dtype == DType::kFloat32) float_fields_.push_back(i);
  }
  if (ActionMaskField(spec_) >= 0) {  // Players are alike.
    for (int i = 0; i < spec_.players; ++i) mask_fields_.push_back(ActionMaskField(spec_, i));
  }
  result_.other_rewards.resize(static_cast<size_t>(spec_.players - 1));
  action_columns_.resize(static_cast<size_t>(spec_.players));
}

// So that no step allocates.
void BaseEnvManager::ReserveStep() {
  const size_t count = slots_.size();
  ready_ids_.reserve(count);
  ready_sources_.reserve(count);
  stepped_ids_.reserve(count);
  ended_.reserve(count);
  finished_.reserve(count);
  reward_.resize(count);
  other_rewards_.resize(count * static_cast<size_t>(spec_.players - 1));
  terminated_.resize(count);
  truncated_.resize(count);
  abnormal_.resize(count);
}

std::string BaseEnvManager::EnvName(int env_id) const {
  return absl::StrCat("env ", env_id, " (", spec_.name, ")");
}

absl::Status BaseEnvManager::CheckEnvId(int env_id) const {
  if (env_id >= 0 && env_id < env_num()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no env ", env_id, ", only 0..", env_num() - 1));
}

absl::Status BaseEnvManager::CheckOpen(absl::string_view call) const {
  if (!closed_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(call, ": the env manager is closed; Launch() comes first"));
}

void BaseEnvManager::SetState(int env_id, EnvState state) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  if (slot.state == state) return;
  slot.state = state;
  ready_ids_known_ = false;
}

EnvState BaseEnvManager::env_state(int env_id) const {
  DING_CHECK(CheckEnvId(env_id).ok()) << CheckEnvId(env_id).ToString();
  return slots_[static_cast<size_t>(env_id)].state;
}

bool BaseEnvManager::done() const {
  for (const Slot& slot : slots_) {
    if (slot.state != EnvState::kDone) return false;
  }
  return true;
}

absl::Status BaseEnvManager::Seed(absl::Span<const uint64_t> seeds, bool dynamic) {
  if (seeds.size() != slots_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", seeds.size(), " seeds for ", slots_.size(), " envs"));
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].seed = seeds[i];
    slots_[i].episodes_begun = 0;
  }
  dynamic_seed_ = dynamic;
  return absl::OkStatus();
}

// Building and resetting.

absl::Status BaseEnvManager::CheckSameSpec(const EnvSpec& spec) const {
  DING_RETURN_IF_ERROR(CheckSameLayout(*spec_.observation, *spec.observation, "its observation"));
  DING_RETURN_IF_ERROR(CheckSameLayout(*spec_.action, *spec.action, "its action"));
  if (*spec.observation != *spec_.observation || *spec.action != *spec_.action) {
    return absl::InvalidArgumentError(
        absl::StrCat("its bounds differ: found ", spec.observation->DebugString(), "\n",
                     spec.action->DebugString(), "\nexpected ", spec_.observation->DebugString(),
                     "\n", spec_.action->DebugString()));
  }
  return absl::OkStatus();
}

absl::Status BaseEnvManager::BuildEnv(int env_id) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Env> env, CallFactory(slot.factory));
  DING_RETURN_IF_ERROR(Annotate(CheckSameSpec(env->spec()), "it is not of the kind of env 0"));
  slot.env = std::move(env);
  return absl::OkStatus();
}

absl::Status BaseEnvManager::TryReset(int env_id, const EpisodeStart& start) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  if (slot.env == nullptr) DING_RETURN_IF_ERROR(BuildEnv(env_id));
  DING_RETURN_IF_ERROR(CallEnv([&] { return slot.env->Reset(start, rows_.view().row(env_id)); }));
  return CheckObservation(env_id);
}

absl::Status BaseEnvManager::BeginEpisode(int env_id) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  const uint64_t index = static_cast<uint64_t>(slot.episodes_begun++);
  const EpisodeStart start{
      dynamic_seed_ ? Rng::DeriveSeed(slot.seed, "env/episode", index) : slot.seed, slot.params};
  absl::Status status;
  for (int attempt = 0; attempt < options_.max_retry; ++attempt) {
    if (attempt > 0) options_.sleep(options_.retry_waiting_time);
    status = TryReset(env_id, start);
    if (status.ok()) {
      slot.length = 0;
      slot.episode_return = 0;
      slot.other_returns.assign(static_cast<size_t>(spec_.players - 1), 0);
      SetState(env_id, EnvState::kRun);
      return absl::OkStatus();
    }
    if (options_.retry_type == RetryType::kRenew) slot.env.reset();
  }
  return Annotate(status, absl::StrCat(EnvName(env_id), ": reset failed (seed ", start.seed,
                                       ", attempts: ", options_.max_retry, ")"));
}

absl::Status BaseEnvManager::BeginEpisodes(absl::Span<const int> env_ids) {
  for (const int env_id : env_ids) {
    const absl::Status status = BeginEpisode(env_id);
    if (status.ok()) continue;
    Close();
    return status;
  }
  return absl::OkStatus();
}

absl::Status BaseEnvManager::Launch() {
  if (!closed_) return absl::FailedPreconditionError("Launch: the env manager runs already");
  closed_ = false;
  for (Slot& slot : slots_) {
    slot.episodes_begun = 0;
    slot.params.Clear();
  }
  return Reset();
}

absl::Status BaseEnvManager::Reset() {
  DING_RETURN_IF_ERROR(CheckOpen("Reset"));
  for (Slot& slot : slots_) {
    slot.episodes_done = 0;
    slot.abnormal_in_a_row = 0;
  }
  return BeginEpisodes(all_ids_);
}

absl::Status BaseEnvManager::Reset(absl::Span<const EnvReset> envs) {
  DING_RETURN_IF_ERROR(CheckOpen("Reset"));
  for (const EnvReset& reset : envs) {
    DING_RETURN_IF_ERROR(Annotate(CheckEnvId(reset.env_id), "Reset"));
  }
  for (const EnvReset& reset : envs) {
    Slot& slot = slots_[static_cast<size_t>(reset.env_id)];
    if (reset.params.has_value()) slot.params = *reset.params;
    slot.abnormal_in_a_row = 0;
    DING_RETURN_IF_ERROR(BeginEpisodes({reset.env_id}));
  }
  return absl::OkStatus();
}

void BaseEnvManager::Close() {
  for (int i = 0; i < env_num(); ++i) {
    slots_[static_cast<size_t>(i)].env.reset();
    SetState(i, EnvState::kVoid);
  }
  closed_ = true;
}

ReadyObs BaseEnvManager::ready_obs() {
  if (!ready_ids_known_) {
    ready_ids_.clear();
    ready_sources_.clear();
    for (const int env_id : all_ids_) {
      if (slots_[static_cast<size_t>(env_id)].state != EnvState::kRun) continue;
      ready_ids_.push_back(env_id);
      ready_sources_.push_back(env_id);
    }
    ready_ids_known_ = true;
  }
  const int64_t count = static_cast<int64_t>(ready_ids_.size());
  if (count == 0) return {ready_ids_, rows_.view().Slice(0, 0)};
  // Neighbours need no copy.
  if (ready_ids_.back() - ready_ids_.front() + 1 == count) {
    return {ready_ids_, rows_.view().Slice(ready_ids_.front(), count)};
  }
  GatherRows(rows_.view(), ready_sources_, ready_rows_.view(), 0);
  return {ready_ids_, ready_rows_.view().Slice(0, count)};
}

// The passes of Step.

absl::Status BaseEnvManager::CheckStep(absl::Span<const int> env_ids, const ColumnsView& actions) {
  DING_RETURN_IF_ERROR(CheckOpen("Step"));
  ++step_count_;
  for (const int env_id : env_ids) {
    if (ABSL_PREDICT_FALSE(env_id < 0 || env_id >= env_num())) return CheckEnvId(env_id);
    Slot& slot = slots_[static_cast<size_t>(env_id)];
    if (ABSL_PREDICT_FALSE(slot.state != EnvState::kRun)) {
      return absl::FailedPreconditionError(
          absl::StrCat(EnvName(env_id), " is in state ", EnvStateName(slot.state),
                       " and cannot be stepped; ready_obs() lists those that can"));
    }
    if (ABSL_PREDICT_FALSE(slot.last_step == step_count_)) {
      return absl::InvalidArgumentError(
          absl::StrCat(EnvName(env_id), " stands twice among the envs to step"));
    }
    slot.last_step = step_count_;
  }
  DING_RETURN_IF_ERROR(CheckActions(spec_, env_ids, actions));
  if (ABSL_PREDICT_TRUE(mask_fields_.empty())) return absl::OkStatus();
  return CheckActionMasks(spec_, mask_fields_, env_ids, actions, rows_.view());
}

absl::StatusOr<const Timesteps*> BaseEnvManager::Step(absl::Span<const int> env_ids,
                                                      const ColumnsView& actions) {
  DING_RETURN_IF_ERROR(CheckStep(env_ids, actions));
  ended_.clear();
  finished_.clear();
  DING_RETURN_IF_ERROR(StepEnvs(env_ids, actions));
  DING_RETURN_IF_ERROR(CheckFinite(env_ids));
  stepped_ids_.assign(env_ids.begin(), env_ids.end());
  if (!ended_.empty()) DING_RETURN_IF_ERROR(EndEpisodes(stepped_ids_));
  const size_t count = env_ids.size();
  timesteps_.env_ids = stepped_ids_;
  timesteps_.reward = absl::MakeConstSpan(reward_).first(count);
  timesteps_.other_rewards =
      absl::MakeConstSpan(other_rewards_).first(count * static_cast<size_t>(spec_.players - 1));
  timesteps_.terminated = absl::MakeConstSpan(terminated_).first(count);
  timesteps_.truncated = absl::MakeConstSpan(truncated_).first(count);
  timesteps_.abnormal = absl::MakeConstSpan(abnormal_).first(count);
  timesteps_.finished = finished_;
  timesteps_.final_obs = final_rows_.view().Slice(0, static_cast<int64_t>(finished_.size()));
  return &timesteps_;
}

absl::Status BaseEnvManager::StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions) {
  // The actions may come with further columns; the env sees its own.
  for (int i = 0; i < spec_.players; ++i) {
    action_columns_[static_cast<size_t>(i)] = const_cast<std::byte*>(actions.raw_column(i));
  }
  const MutableColumnsView rows = rows_.view();
  for (size_t i = 0; i < env_ids.size(); ++i) {
    const int env_id = env_ids[i];
    Slot& slot = slots_[static_cast<size_t>(env_id)];
    const RowView action(spec_.action.get(), action_columns_.data(), static_cast<int64_t>(i));
    ClearResult();
    absl::Status status =
        CallEnv([&] { return slot.env->Step(action, rows.row(env_id), &result_); });
    if (ABSL_PREDICT_FALSE(!status.ok())) {
      status = RetryStep(env_id, action, std::move(status));
      if (!status.ok()) return FailStep(env_ids, i, i, status);
    }
    ++slot.length;
    slot.episode_return += result_.reward;
    reward_[i] = result_.reward;
    if (ABSL_PREDICT_FALSE(spec_.players > 1)) {
      status = NoteOtherRewards(i, env_id);
      if (!status.ok()) return FailStep(env_ids, i, i, status);
    }
    terminated_[i] = 0;
    truncated_[i] = 0;
    abnormal_[i] = 0;
    if (ABSL_PREDICT_FALSE(result_.terminated || result_.truncated || result_.abnormal)) {
      status = NoteEnd(static_cast<int>(i), env_id);
      if (!status.ok()) return FailStep(env_ids, i, i, status);
    } else {
      slot.abnormal_in_a_row = 0;
    }
  }
  return absl::OkStatus();
}

absl::Status BaseEnvManager::NoteOtherRewards(size_t row, int env_id) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  const auto others = static_cast<size_t>(spec_.players - 1);
  if (result_.other_rewards.size() != others) {
    return absl::InternalError(absl::StrCat(EnvName(env_id), ": ", result_.other_rewards.size(),
                                            " other_rewards, expected ", others, ", for ",
                                            spec_.players, " players"));
  }
  for (size_t i = 0; i < others; ++i) {
    slot.other_returns[i] += result_.other_rewards[i];
    other_rewards_[row * others + i] = result_.other_rewards[i];
  }
  return absl::OkStatus();
}

void BaseEnvManager::ClearResult() {
  result_.reward = 0;
  if (ABSL_PREDICT_FALSE(spec_.players > 1)) {
    result_.other_rewards.assign(static_cast<size_t>(spec_.players - 1), 0);
  }
  result_.terminated = false;
  result_.truncated = false;
  result_.abnormal = false;
  if (ABSL_PREDICT_FALSE(!result_.info.empty())) result_.info.Clear();
}

absl::Status BaseEnvManager::RetryStep(int env_id, const RowView& action, absl::Status failure) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  for (int attempt = 1; attempt < options_.max_retry; ++attempt) {
    options_.sleep(options_.retry_waiting_time);
    ClearResult();
    if (options_.retry_type == RetryType::kRenew) {
      // A new env cannot go on with the episode: the step is void, and the reset that follows
      // builds the env.
      slot.env.reset();
      result_.abnormal = true;
      return absl::OkStatus();
    }
    failure = CallEnv([&] { return slot.env->Step(action, rows_.view().row(env_id), &result_); });
    if (failure.ok()) return failure;
  }
  return Annotate(failure,
                  absl::StrCat(EnvName(env_id), ": step ", slot.length + 1,
                               " of its episode failed (attempts: ", options_.max_retry, ")"));
}

absl::Status BaseEnvManager::NoteEnd(int row, int env_id) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  ended_.push_back({row, result_.abnormal, std::move(result_.info)});
  result_.info.Clear();
  if (!result_.abnormal) {
    terminated_[static_cast<size_t>(row)] = result_.terminated ? 1 : 0;
    truncated_[static_cast<size_t>(row)] = result_.truncated && !result_.terminated ? 1 : 0;
    slot.abnormal_in_a_row = 0;
    return absl::OkStatus();
  }
  abnormal_[static_cast<size_t>(row)] = 1;
  reward_[static_cast<size_t>(row)] = 0;
  const int others = spec_.players - 1;
  std::fill_n(other_rewards_.begin() + row * others, others, 0.0f);
  if (++slot.abnormal_in_a_row <= options_.max_abnormal_steps) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(EnvName(env_id), ": ", slot.abnormal_in_a_row,
                                          " abnormal steps in a row, at most ",
                                          options_.max_abnormal_steps, " are put up with"));
}

absl::Status BaseEnvManager::CheckFinite(absl::Span<const int> env_ids) {
  const size_t count = env_ids.size();
  const size_t others = count * static_cast<size_t>(spec_.players - 1);
  bool finite = AllFinite(absl::MakeConstSpan(reward_).first(count)) &
                AllFinite(absl::MakeConstSpan(other_rewards_).first(others));
  for (const int field : float_fields_) {
    const std::byte* const column = rows_.view().raw_column(field);
    const auto size = static_cast<size_t>(spec_.observation->row_bytes(field)) / sizeof(float);
    const auto* const rows = reinterpret_cast<const float*>(column);
    if (count == slots_.size()) {  // No env stands twice, so these are all rows.
      finite &= AllFinite({rows, count * size});
      continue;
    }
    for (const int env_id : env_ids) {
      finite &= AllFinite({rows + static_cast<size_t>(env_id) * size, size});
    }
  }
  if (ABSL_PREDICT_TRUE(finite)) return absl::OkStatus();
  for (size_t i = 0; i < count; ++i) {
    if (abnormal_[i] != 0) continue;
    absl::Status status = CheckObservation(env_ids[i]);
    if (!std::isfinite(reward_[i])) {
      status = absl::InternalError(absl::StrCat("the reward is ", reward_[i]));
    }
    for (size_t j = 0; j < others / count; ++j) {
      const float reward = other_rewards_[i * (others / count) + j];
      if (std::isfinite(reward)) continue;
      status = absl::InternalError(absl::StrCat("the reward of player ", j + 1, " is ", reward));
    }
    if (status.ok()) continue;
    const int64_t step = slots_[static_cast<size_t>(env_ids[i])].length;
    return FailStep(
        env_ids, i, count,
        Annotate(status, absl::StrCat(EnvName(env_ids[i]), ": at step ", step, " of its episode")));
  }
  return absl::OkStatus();
}

absl::Status BaseEnvManager::CheckObservation(int env_id) const {
  for (const int field : float_fields_) {
    const absl::Span<const float> values = rows_.view().row(env_id).field<float>(field);
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      return absl::InternalError(absl::StrCat("observation field '",
                                              spec_.observation->field(field).name, "', element ",
                                              i, ", is ", values[i]));
    }
  }
  return absl::OkStatus();
}

absl::Status BaseEnvManager::FailStep(absl::Span<const int> env_ids, size_t failed_row,
                                      size_t stepped_rows, const absl::Status& failure) {
  for (size_t i = 0; i < stepped_rows; ++i) SetState(env_ids[i], EnvState::kNeedReset);
  SetState(env_ids[failed_row], EnvState::kError);
  return failure;
}

absl::Status BaseEnvManager::EndEpisodes(absl::Span<const int> env_ids) {
  for (Ended& ended : ended_) {
    const int env_id = env_ids[static_cast<size_t>(ended.row)];
    if (!ended.abnormal) FinishEpisode(env_id, &ended);
    if (slots_[static_cast<size_t>(env_id)].state != EnvState::kRun) continue;
    DING_RETURN_IF_ERROR(BeginEpisodes({env_id}));
  }
  return absl::OkStatus();
}

void BaseEnvManager::FinishEpisode(int env_id, Ended* ended) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  CopyRows(ColumnsView(rows_.view()).Slice(env_id, 1), final_rows_.view(),
           static_cast<int64_t>(finished_.size()));
  const double episode_return = ended->info.GetOr("eval_episode_return", slot.episode_return);
  finished_.push_back(
      {ended->row, episode_return, slot.other_returns, slot.length, std::move(ended->info)});
  ++slot.episodes_done;
  if (options_.episode_num > 0 && slot.episodes_done >= options_.episode_num) {
    SetState(env_id, EnvState::kDone);
  } else if (!options_.auto_reset) {
    SetState(env_id, EnvState::kNeedReset);
  }
}

absl::StatusOr<Image> BaseEnvManager::Render(int env_id) {
  DING_RETURN_IF_ERROR(CheckOpen("Render"));
  DING_RETURN_IF_ERROR(Annotate(CheckEnvId(env_id), "Render"));
  Env* const env = slots_[static_cast<size_t>(env_id)].env.get();
  if (env == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(EnvName(env_id), ": Reset() comes first"));
  }
  Image image;
  const absl::Status status = CallEnv([&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(image, env->Render());
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, absl::StrCat(EnvName(env_id), ": render failed"));
  return image;
}

// State. Tensors: "env" (name), "dynamic_seed", "state", "seed", "saved" and one per counter, each
// with an element per env; "episode_return" with one per env and player; "row/<field>" with a row
// per env; "params/<i>/..." and "env/<i>/..." for env i.

struct BaseEnvManager::Counter {
  absl::string_view name;
  int64_t Slot::*value;
};

const BaseEnvManager::Counter BaseEnvManager::kCounters[] = {
    {"length", &Slot::length},
    {"abnormal_in_a_row", &Slot::abnormal_in_a_row},
    {"episodes_done", &Slot::episodes_done},
    {"episodes_begun", &Slot::episodes_begun},
};

struct BaseEnvManager::SavedState {
  bool dynamic_seed = true;
  std::vector<uint8_t> saved;  // whether the env saved itself
  std::vector<Slot> slots;     // without env and factory
  std::vector<Tensor> columns;
};

namespace {

absl::Status WriteParams(const NamedValues& params, StateWriter* writer) {
  std::vector<double> values;
  for (const NamedValues::Entry& entry : params) {
    DING_RETURN_IF_ERROR(writer->WriteString(absl::StrCat("name", values.size()), entry.first));
    values.push_back(entry.second);
  }
  return writer->WriteSpan<double>("values", values);
}

absl::StatusOr<NamedValues> ReadParams(StateReader* reader) {
  NamedValues params;
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info("values"));
  std::vector<double> values(static_cast<size_t>(NumElements(info.shape)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<double>("values", absl::MakeSpan(values)));
  for (size_t i = 0; i < values.size(); ++i) {
    DING_ASSIGN_OR_RETURN(const std::string name, reader->ReadString(absl::StrCat("name", i)));
    params.Set(name, values[i]);
  }
  return params;
}

// The states that SaveState() meets.
bool IsRestingState(uint8_t state) {
  return state == static_cast<uint8_t>(EnvState::kRun) ||
         state == static_cast<uint8_t>(EnvState::kDone) ||
         state == static_cast<uint8_t>(EnvState::kError) ||
         state == static_cast<uint8_t>(EnvState::kNeedReset);
}

}  // namespace

absl::Status BaseEnvManager::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(CheckOpen("SaveState"));
  DING_RETURN_IF_ERROR(writer->WriteString("env", spec_.name));
  DING_RETURN_IF_ERROR(writer->WriteInt("dynamic_seed", dynamic_seed_ ? 1 : 0));
  std::vector<uint8_t> states;
  std::vector<int64_t> seeds;
  std::vector<double> returns;
  for (const Slot& slot : slots_) {
    states.push_back(static_cast<uint8_t>(slot.state));
    seeds.push_back(static_cast<int64_t>(slot.seed));
    returns.push_back(slot.episode_return);
    returns.insert(returns.end(), slot.other_returns.begin(), slot.other_returns.end());
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<uint8_t>("state", states));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("seed", seeds));
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>("episode_return", returns));
  for (const Counter& counter : kCounters) {
    std::vector<int64_t> values;
    for (const Slot& slot : slots_) values.push_back(slot.*counter.value);
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>(counter.name, values));
  }
  const Spec& spec = *spec_.observation;
  for (int i = 0; i < spec.size(); ++i) {
    Shape shape = spec.field(i).shape;
    shape.insert(shape.begin(), env_num());
    const absl::string_view bytes(reinterpret_cast<const char*>(rows_.view().raw_column(i)),
                                  static_cast<size_t>(env_num() * spec.row_bytes(i)));
    DING_RETURN_IF_ERROR(writer->Write(absl::StrCat("row/", spec.field(i).name),
                                       spec.field(i).dtype, shape, {bytes}));
  }
  return SaveEnvs(writer);
}

absl::Status BaseEnvManager::SaveEnvs(StateWriter* writer) const {
  std::vector<uint8_t> saved;
  for (const int env_id : all_ids_) {
    const Slot& slot = slots_[static_cast<size_t>(env_id)];
    ScopedStateWriter params(writer, absl::StrCat("params/", env_id));
    DING_RETURN_IF_ERROR(WriteParams(slot.params, &params));
    // Only a running episode has anything to go on with.
    absl::Status status = absl::UnimplementedError("not running");
    if (slot.state == EnvState::kRun) {
      ScopedStateWriter scoped(writer, absl::StrCat("env/", env_id));
      status = CallEnv([&] { return slot.env->SaveState(&scoped); });
    }
    saved.push_back(status.ok() ? 1 : 0);
    if (absl::IsUnimplemented(status)) continue;
    DING_RETURN_IF_ERROR(Annotate(status, absl::StrCat(EnvName(env_id), ": saving its state")));
  }
  return writer->WriteSpan<uint8_t>("saved", saved);
}

absl::StatusOr<BaseEnvManager::SavedState> BaseEnvManager::ReadState(StateReader* reader) const {
  const size_t count = slots_.size();
  SavedState state;
  state.slots.resize(count);
  DING_ASSIGN_OR_RETURN(const std::string name, reader->ReadString("env"));
  if (name != spec_.name) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the saved envs are '", name, "', those of this manager are '", spec_.name, "'"));
  }
  DING_ASSIGN_OR_RETURN(const int64_t dynamic_seed, reader->ReadInt("dynamic_seed"));
  state.dynamic_seed = dynamic_seed != 0;
  state.saved.resize(count);
  DING_RETURN_IF_ERROR(reader->ReadSpan<uint8_t>("saved", absl::MakeSpan(state.saved)));
  std::vector<uint8_t> states(count);
  std::vector<int64_t> ints(count);
  const auto players = static_cast<size_t>(spec_.players);
  std::vector<double> returns(count * players);
  DING_RETURN_IF_ERROR(reader->ReadSpan<uint8_t>("state", absl::MakeSpan(states)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<double>("episode_return", absl::MakeSpan(returns)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("seed", absl::MakeSpan(ints)));
  for (size_t i = 0; i < count; ++i) {
    if (!IsRestingState(states[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved state of env ", i, " is ", states[i], ", which is none"));
    }
    state.slots[i].state = static_cast<EnvState>(states[i]);
    const auto of_env = returns.begin() + static_cast<ptrdiff_t>(i * players);
    state.slots[i].episode_return = *of_env;
    state.slots[i].other_returns.assign(of_env + 1, of_env + spec_.players);
    state.slots[i].seed = static_cast<uint64_t>(ints[i]);
    ScopedStateReader params(reader, absl::StrCat("params/", i));
    DING_ASSIGN_OR_RETURN(state.slots[i].params, ReadParams(&params));
  }
  for (const Counter& counter : kCounters) {
    DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>(counter.name, absl::MakeSpan(ints)));
    for (size_t i = 0; i < count; ++i) state.slots[i].*counter.value = ints[i];
  }
  return state;
}

absl::Status BaseEnvManager::ReadRows(StateReader* reader, std::vector<Tensor>* columns) const {
  for (const FieldSpec& field : spec_.observation->fields()) {
    const std::string name = absl::StrCat("row/", field.name);
    Shape shape = field.shape;
    shape.insert(shape.begin(), env_num());
    DING_ASSIGN_OR_RETURN(Tensor tensor, reader->ReadTensor(name));
    if (tensor.dtype() != field.dtype || tensor.shape() != shape) {
      return absl::InvalidArgumentError(absl::StrCat("saved '", name, "' is ", tensor.DebugString(),
                                                     ", expected ", DTypeName(field.dtype),
                                                     ShapeString(shape)));
    }
    columns->push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status BaseEnvManager::LoadState(StateReader* reader, std::vector<int>* restarted) {
  DING_ASSIGN_OR_RETURN(SavedState state, ReadState(reader));
  DING_RETURN_IF_ERROR(ReadRows(reader, &state.columns));
  for (int i = 0; i < env_num(); ++i) {
    Slot& slot = slots_[static_cast<size_t>(i)];
    Slot& from = state.slots[static_cast<size_t>(i)];
    SetState(i, from.state);
    slot.episode_return = from.episode_return;
    slot.other_returns = from.other_returns;
    slot.seed = from.seed;
    slot.params = std::move(from.params);
    for (const Counter& counter : kCounters) slot.*counter.value = from.*counter.value;
  }
  dynamic_seed_ = state.dynamic_seed;
  closed_ = false;
  for (size_t i = 0; i < state.columns.size(); ++i) {
    const absl::string_view bytes = state.columns[i].bytes();
    std::memcpy(rows_.view().raw_column(static_cast<int>(i)), bytes.data(), bytes.size());
  }
  const absl::Status status = LoadEnvs(reader, state.saved, restarted);
  if (!status.ok()) Close();
  return status;
}

absl::Status BaseEnvManager::LoadEnvs(StateReader* reader, absl::Span<const uint8_t> saved,
                                      std::vector<int>* restarted) {
  restarted->clear();
  for (const int env_id : all_ids_) {
    Slot& slot = slots_[static_cast<size_t>(env_id)];
    if (slot.state != EnvState::kRun) continue;
    if (saved[static_cast<size_t>(env_id)] == 0) {
      restarted->push_back(env_id);
      DING_RETURN_IF_ERROR(BeginEpisode(env_id));
      continue;
    }
    const std::string context = absl::StrCat(EnvName(env_id), ": loading its state");
    if (slot.env == nullptr) DING_RETURN_IF_ERROR(Annotate(BuildEnv(env_id), context));
    ScopedStateReader scoped(reader, absl::StrCat("env/", env_id));
    DING_RETURN_IF_ERROR(Annotate(CallEnv([&] { return slot.env->LoadState(&scoped); }), context));
  }
  return absl::OkStatus();
}

}  // namespace ding
