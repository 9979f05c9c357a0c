// How CollectCore stores what the envs have answered: for each player of a game, also for those that end before it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

absl::Status CollectCore::Store(int player, const Timesteps& timesteps) {
  if (player_num() == 1) return players_[0].traj->Store(timesteps);
  const TrajBuffer& traj = *players_[player].traj;
  const bool acted = std::all_of(timesteps.env_ids.begin(), timesteps.env_ids.end(),
                                 [&traj](int env_id) { return traj.under_way(env_id); });
  if (!acted || !timesteps.ended_players.empty()) return StoreWithEnds(player, timesteps);
  Timesteps own = timesteps;
  if (player > 0) {
    const size_t others = players_.size() - 1;
    rewards_.clear();
    for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
      rewards_.push_back(timesteps.other_rewards[i * others + static_cast<size_t>(player) - 1]);
    }
    own.reward = rewards_;
  }
  if (!timesteps.finished.empty()) {
    own.final_obs = ObsOf(player, timesteps.final_obs);
  }
  return players_[player].traj->Store(own);
}

absl::Status CollectCore::StoreWithEnds(int player, const Timesteps& timesteps) {
  TrajBuffer& traj = *players_[player].traj;
  const size_t others = players_.size() - 1;
  own_.env_ids.clear();
  own_.reward.clear();
  own_.terminated.clear();
  own_.truncated.clear();
  own_.abnormal.clear();
  own_.finished.clear();
  std::optional<BatchBuilder>& final_obs = players_[player].final_obs;
  if (!final_obs.has_value()) {
    DING_ASSIGN_OR_RETURN(final_obs,
                          BatchBuilder::Create(players_[player].observation, env_->env_num()));
  }
  size_t finished = 0;
  size_t ended = 0;
  for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
    const int env_id = timesteps.env_ids[i];
    const int row = static_cast<int>(i);
    const auto over = static_cast<int64_t>(finished);
    const bool game_over =
        finished < timesteps.finished.size() && timesteps.finished[finished].row == row;
    if (game_over) ++finished;
    std::optional<size_t> its_end;
    for (; ended < timesteps.ended_players.size() && timesteps.ended_players[ended].row == row;
         ++ended) {
      if (timesteps.ended_players[ended].player == player) its_end = ended;
    }
    if (!traj.under_way(env_id)) {
      if (timesteps.abnormal[i] != 0) traj.DropEpisode(env_id);
      continue;
    }
    const auto own_row = static_cast<int>(own_.env_ids.size());
    own_.env_ids.push_back(env_id);
    own_.reward.push_back(player == 0 ? timesteps.reward[i]
                                      : timesteps.other_rewards[i * others + player - 1]);
    own_.abnormal.push_back(timesteps.abnormal[i]);
    own_.terminated.push_back(timesteps.terminated[i]);
    own_.truncated.push_back(timesteps.truncated[i]);
    if (its_end.has_value()) {
      const bool terminated = timesteps.ended_players[*its_end].terminated;
      own_.terminated.back() = terminated ? 1 : 0;
      own_.truncated.back() = terminated ? 0 : 1;
      if (!game_over) traj.LeaveGame(env_id);
    }
    if (!game_over && !its_end.has_value()) continue;
    const ColumnsView last = game_over
                                 ? timesteps.final_obs.Slice(over, 1)
                                 : timesteps.ended_obs.Slice(static_cast<int64_t>(*its_end), 1);
    CopyRows(ObsOf(player, last), final_obs->view(), static_cast<int64_t>(own_.finished.size()));
    own_.finished.emplace_back().row = own_row;
  }
  Timesteps own;
  own.env_ids = own_.env_ids;
  own.reward = own_.reward;
  own.terminated = own_.terminated;
  own.truncated = own_.truncated;
  own.abnormal = own_.abnormal;
  own.finished = own_.finished;
  own.final_obs = final_obs->view().Slice(0, static_cast<int64_t>(own_.finished.size()));
  return traj.Store(own);
}

void CollectCore::EndGames(const Timesteps& timesteps) {
  const auto end_game = [this](int env_id) {
    int64_t next_step = 0;
    for (const Player& player : players_) {
      next_step = std::max(next_step, player.traj->next_step()[env_id]);
    }
    for (Player& player : players_) player.traj->EndGame(env_id, next_step);
  };
  for (const FinishedEpisode& finished : timesteps.finished) {
    end_game(timesteps.env_ids[finished.row]);
  }
  for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
    if (timesteps.abnormal[i] != 0) end_game(timesteps.env_ids[i]);
  }
}

}  // namespace ding
