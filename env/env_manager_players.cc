// What EnvManagerCore does for the players of a game: their rewards, and ends before the end of the
// game.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager_core.h"

namespace ding {

bool EnvManagerCore::plays(int env_id, int player) const {
  if (!CheckEnvId(env_id).ok() || player < 0 || player >= spec_.players) return false;
  const std::vector<uint8_t>& out = slots_[static_cast<size_t>(env_id)].out;
  return out.empty() || out[static_cast<size_t>(player)] == 0;
}

absl::Status EnvManagerCore::NoteOtherRewards(size_t row, int env_id, const StepResult& result) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  const auto others = static_cast<size_t>(spec_.players - 1);
  if (result.other_rewards.size() != others) {
    return absl::InternalError(absl::StrCat(EnvName(env_id), ": ", result.other_rewards.size(),
                                            " other_rewards, expected ", others, " for ",
                                            spec_.players, " players"));
  }
  for (size_t i = 0; i < others; ++i) {
    slot.other_returns[i] += result.other_rewards[i];
    other_rewards_[row * others + i] = result.other_rewards[i];
  }
  return absl::OkStatus();
}

absl::Status EnvManagerCore::NotePlayerEnds(size_t row, int env_id, StepResult* result) {
  DING_RETURN_IF_ERROR(Annotate(CheckPlayerEnds(spec_, *result), EnvName(env_id)));
  if (result->abnormal) return absl::OkStatus();
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  bool any = false;
  bool terminated = false;
  for (int player = 0; player < spec_.players; ++player) {
    const auto i = static_cast<size_t>(player);
    if (slot.out[i] != 0) {
      const float reward = player == 0 ? result->reward : result->other_rewards[i - 1];
      if (reward == 0) continue;
      return absl::InternalError(absl::StrCat(
          EnvName(env_id), ": at step ", slot.length, " of its episode the reward of player ",
          player, ", which ended before, is ", reward,
          ", expected 0: a player that is still rewarded has not ended (StepResult::player_ends)"));
    }
    if (result->player_ends[i] == PlayerEnd::kNone) continue;
    any = true;
    slot.out[i] = 1;
    const bool its_end = result->player_ends[i] == PlayerEnd::kTerminated;
    terminated |= its_end;
    ended_players_.push_back({static_cast<int>(row), player, its_end});
  }
  if (!any || result->terminated || result->truncated) return absl::OkStatus();
  if (std::count(slot.out.begin(), slot.out.end(), 0) > 0) return absl::OkStatus();
  (terminated ? result->terminated : result->truncated) = true;
  return absl::OkStatus();
}

absl::Status EnvManagerCore::KeepEndedObs() {
  if (!ended_obs_.has_value()) {
    DING_ASSIGN_OR_RETURN(
        ended_obs_, BatchBuilder::Create(spec_.observation, int64_t{env_num_} * spec_.players));
  }
  for (size_t i = 0; i < ended_players_.size(); ++i) {
    const int env_id = stepped_ids_[static_cast<size_t>(ended_players_[i].row)];
    CopyRows(ColumnsView(rows_).Slice(env_id, 1), ended_obs_->view(), static_cast<int64_t>(i));
  }
  timesteps_.ended_players = ended_players_;
  timesteps_.ended_obs = ended_obs_->view().Slice(0, static_cast<int64_t>(ended_players_.size()));
  return absl::OkStatus();
}

}  // namespace ding
