// How EnvManagerCore accounts for the steps that envs have made: rewards, and steps that are void,
// failed or not finite.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_core.h"

namespace ding {

bool EnvManagerCore::AccountRewards() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    ++slots_[i].length;
    slots_[i].episode_return += reward_[i];
    reward_sum_ += reward_[i];
  }
  uint8_t ended = 0;
  for (size_t i = 0; i < 2 * slots_.size(); ++i) ended |= ends_[i];
  return ended != 0;
}

absl::Status EnvManagerCore::AccountRest(size_t row, int env_id, const absl::Status& void_cause,
                                         StepResult* result) {
  if (spec_.players > 1) {
    DING_RETURN_IF_ERROR(NoteOtherRewards(row, env_id, *result));
    DING_RETURN_IF_ERROR(NotePlayerEnds(row, env_id, result));
  }
  // An env without components that fills them is noticed at the end of its episode, at no cost in
  // between.
  const bool has_components = components_ > 0 || !result->reward_components.empty();
  if (has_components && !result->abnormal) {
    DING_RETURN_IF_ERROR(NoteRewardComponents(row, env_id, *result));
  }
  if (spec_.info != nullptr && !result->abnormal) {
    DING_RETURN_IF_ERROR(NoteInfo(row, env_id, result));
  }
  if (result->terminated || result->truncated || result->abnormal) {
    const bool keeps_env = absl::IsDataLoss(void_cause);  // Only its values were bad.
    return NoteEnd(static_cast<int>(row), env_id, keeps_env ? void_cause : BuiltAnew(void_cause),
                   result);
  }
  return absl::OkStatus();
}

absl::Status EnvManagerCore::StepFailed(int env_id, const absl::Status& failure) const {
  const int64_t step = slots_[static_cast<size_t>(env_id)].length + 1;
  if (IsBadValue(failure)) {
    return absl::InternalError(
        absl::StrCat(EnvName(env_id), ": step ", step,
                     " of its episode failed (attempts: 1): ", failure.message()));
  }
  return Annotate(failure,
                  absl::StrCat(EnvName(env_id), ": step ", step,
                               " of its episode failed (attempts: ", options_.max_retry, ")"));
}

absl::Status EnvManagerCore::NoteRewardComponents(size_t row, int env_id,
                                                  const StepResult& result) {
  DING_RETURN_IF_ERROR(Annotate(CheckRewardComponents(spec_, result), EnvName(env_id)));
  const auto components = static_cast<size_t>(components_);
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  double sum = 0;
  for (size_t i = 0; i < components; ++i) {
    const float reward = result.reward_components[i];
    slot.component_returns[i] += reward;
    reward_components_[row * components + i] = reward;
    sum += reward;
  }
  slot.episode_return += sum;
  reward_[row] = static_cast<float>(sum);
  reward_sum_ += sum;
  return absl::OkStatus();
}

absl::Status EnvManagerCore::NoteInfo(size_t row, int env_id, StepResult* result) {
  DING_RETURN_IF_ERROR(Annotate(CheckInfoRow(spec_, *result), EnvName(env_id)));
  const MutableColumnsView to = blocks_.info->view();
  const char* from = result->info_row.bytes().data();
  for (int i = 0; i < spec_.info->size(); ++i) {
    const auto bytes = static_cast<size_t>(spec_.info->row_bytes(i));
    std::memcpy(to.raw_column(i) + row * bytes, from + InfoRow::Offset(*spec_.info, i), bytes);
  }
  return absl::OkStatus();
}

absl::Status EnvManagerCore::NoteEnd(int row, int env_id, const absl::Status& void_cause,
                                     StepResult* result) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  ended_.push_back({row, result->abnormal, std::move(result->info),
                    std::exchange(result->component_returns, {})});
  result->info.Clear();
  if (!result->abnormal) {
    terminated()[static_cast<size_t>(row)] = result->terminated ? 1 : 0;
    truncated()[static_cast<size_t>(row)] = result->truncated && !result->terminated ? 1 : 0;
    slot.abnormal_in_a_row = 0;
    const double own_return = ended_.back().info.GetOr(kEpisodeReturn, 0);
    if (!std::isfinite(own_return)) reward_sum_ = own_return;  // CheckFinite() finds it.
    return absl::OkStatus();
  }
  return NoteVoid(row, env_id, Annotate(void_cause, EnvName(env_id)));
}

absl::Status EnvManagerCore::NoteVoid(int row, int env_id, const absl::Status& cause) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  if (!cause.ok()) causes_.push_back({row, cause});
  abnormal()[static_cast<size_t>(row)] = 1;
  reward_[static_cast<size_t>(row)] = 0;
  const int others = spec_.players - 1;
  std::fill_n(other_rewards_.begin() + row * others, others, 0.0f);
  std::fill_n(reward_components_.begin() + row * components_, components_, 0.0f);
  slot.abnormal_in_a_row = slot.length > 1 ? 1 : slot.abnormal_in_a_row + 1;
  if (slot.abnormal_in_a_row <= options_.max_abnormal_steps) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      EnvName(env_id), ": ", slot.abnormal_in_a_row, " abnormal steps in a row, at most ",
      options_.max_abnormal_steps, " are accepted (max_abnormal_steps)",
      causes_.empty() ? "" : absl::StrCat("; the last: ", causes_.back().cause.message())));
}

absl::Status EnvManagerCore::DropNoted(int row, int env_id, const absl::Status& cause) {
  const auto noted = std::find_if(ended_.begin(), ended_.end(),
                                  [row](const Ended& ended) { return ended.row == row; });
  if (noted != ended_.end()) {
    noted->abnormal = true;
  } else {
    ended_.push_back({row, true, {}, {}});
  }
  terminated()[static_cast<size_t>(row)] = truncated()[static_cast<size_t>(row)] = 0;
  ended_players_.erase(std::remove_if(ended_players_.begin(), ended_players_.end(),
                                      [row](const EndedPlayer& ended) { return ended.row == row; }),
                       ended_players_.end());
  return NoteVoid(row, env_id, cause);
}

absl::Status EnvManagerCore::CheckFinite(absl::Span<const int> env_ids) {
  const size_t count = env_ids.size();
  const size_t others = count * static_cast<size_t>(spec_.players - 1);
  bool finite = std::isfinite(reward_sum_);
  if (others > 0) finite &= AllFinite(absl::MakeConstSpan(other_rewards_).first(others));
  for (const int field : float_fields_) {
    const std::byte* const column = rows_.raw_column(field);
    const auto size = static_cast<size_t>(spec_.observation->row_bytes(field)) / sizeof(float);
    const auto* const rows = reinterpret_cast<const float*>(column);
    if (count == slots_.size()) {  // No env occurs twice, so these are all rows.
      finite &= AllFinite({rows, count * size});
      continue;
    }
    for (const int env_id : env_ids) {
      finite &= AllFinite({rows + static_cast<size_t>(env_id) * size, size});
    }
  }
  if (ABSL_PREDICT_TRUE(finite)) return absl::OkStatus();
  for (size_t i = 0; i < count; ++i) {
    if (abnormal()[i] != 0) continue;
    absl::Status status = CheckFiniteRow(rows_.row(env_ids[i]));
    if (!std::isfinite(reward_[i])) {
      status = absl::InternalError(absl::StrCat("the reward is ", reward_[i]));
    }
    const auto components = static_cast<size_t>(components_);
    for (size_t j = 0; j < components; ++j) {
      const float reward = reward_components_[i * components + j];
      if (std::isfinite(reward)) continue;
      status = absl::InternalError(absl::StrCat("component ", j, " of the reward is ", reward));
    }
    for (size_t j = 0; j < others / count; ++j) {
      const float reward = other_rewards_[i * (others / count) + j];
      if (std::isfinite(reward)) continue;
      status = absl::InternalError(absl::StrCat("the reward of player ", j + 1, " is ", reward));
    }
    for (const Ended& ended : ended_) {
      const double own_return = ended.info.GetOr(kEpisodeReturn, 0);
      if (ended.row != static_cast<int>(i) || std::isfinite(own_return)) continue;
      status =
          absl::InternalError(absl::StrCat("its own return of the episode (", kEpisodeReturn,
                                           ", in Python info['episode']['r']) is ", own_return));
    }
    if (status.ok()) continue;
    const int64_t step = slots_[static_cast<size_t>(env_ids[i])].length;
    status = absl::InternalError(absl::StrCat(EnvName(env_ids[i]), ": at step ", step,
                                              " of its episode: ", status.message()));
    if (options_.drop_not_finite) {
      status = DropNoted(static_cast<int>(i), env_ids[i], status);
      if (status.ok()) continue;
    }
    return FailStep(env_ids, i, count, status);
  }
  return absl::OkStatus();
}

absl::Status EnvManagerCore::FailStep(absl::Span<const int> env_ids, size_t failed_row,
                                      size_t stepped_rows, const absl::Status& failure) {
  for (size_t i = 0; i < stepped_rows; ++i) SetState(env_ids[i], EnvState::kNeedReset);
  SetState(env_ids[failed_row], EnvState::kError);
  return failure;
}

}  // namespace ding
