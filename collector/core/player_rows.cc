#include "ding_worker/collector/core/player_rows.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

std::string TrajScope(int player) {
  return player == 0 ? std::string("traj") : absl::StrCat("traj_", player);
}

}  // namespace

absl::StatusOr<std::vector<TrajBuffer>> PlayerRows::Make(const EnvManager& env,
                                                         absl::Span<CollectMode* const> policies,
                                                         bool with_level_seed) const {
  std::vector<TrajBuffer> fresh;
  for (size_t i = 0; i < policies.size(); ++i) {
    const auto player = static_cast<int>(i);
    const CollectAttributes attributes = policies[i]->attributes();
    const EnvSpec player_spec = PlayerSpec(env.env_spec(), player);
    if (attributes.unroll_len < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("policy: unroll_len is ", attributes.unroll_len, ", expected at least 1"));
    }
    DING_RETURN_IF_ERROR(CheckTakesReward("the policy", attributes.reward_components,
                                          player_spec.name, player_spec.reward_shape));
    DING_ASSIGN_OR_RETURN(
        TrajLayout layout,
        TrajLayout::Create(player_spec.observation, policies[i]->output_spec(), with_level_seed,
                           player_spec.reward_shape, player_spec.info));
    TrajBuffer::Options options;
    options.env_num = env.env_num();
    options.stream_base = options_.stream_base + player;
    options.stream_stride = env.env_spec().players;
    options.whole_episodes = options_.whole_episodes || attributes.traj_len_inf;
    if (!attributes.traj_len_inf) options.maxlen = options_.maxlen;
    options.unroll_len = attributes.unroll_len;
    // Take() cuts no whole episodes.
    options.cut_samples = attributes.on_policy && !options.whole_episodes;
    fresh.emplace_back(std::move(layout), options);
  }
  return fresh;
}

void PlayerRows::Use(const EnvSpec& env, std::vector<TrajBuffer> fresh) {
  players_.resize(fresh.size());
  for (int i = 0; i < players(); ++i) {
    Player& player = players_[i];
    player.observation = fresh[i].layout().observation;
    player.first_field = FirstObsField(env, i);
    player.final_obs.reset();
    player.info.reset();
    if (player.traj.has_value()) {
      if (player.traj->Fits(fresh[i])) continue;
      fresh[i].ContinueAfter(*player.traj);
    }
    player.traj = std::move(fresh[i]);
  }
}

bool PlayerRows::under_way(int env_id) const {
  for (const Player& player : players_) {
    if (player.traj->under_way(env_id)) return true;
  }
  return false;
}

void PlayerRows::DropEpisode(int env_id) {
  for (Player& player : players_) player.traj->DropEpisode(env_id);
}

absl::Status PlayerRows::Store(const Timesteps& timesteps) {
  if (players() == 1) return players_[0].traj->Store(timesteps);
  for (const int env_id : timesteps.env_ids) {
    if (under_way(env_id)) continue;
    return absl::InternalError(
        absl::StrCat("env manager answered for env ", env_id, ", which was not stepped"));
  }
  for (int i = 0; i < players(); ++i) DING_RETURN_IF_ERROR(StoreOf(i, timesteps));
  EndGames(timesteps);
  return absl::OkStatus();
}

absl::Status PlayerRows::StoreOf(int player, const Timesteps& timesteps) {
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

absl::Status PlayerRows::StoreWithEnds(int player, const Timesteps& timesteps) {
  TrajBuffer& traj = *players_[player].traj;
  const size_t others = players_.size() - 1;
  own_.env_ids.clear();
  own_.reward.clear();
  own_.terminated.clear();
  own_.truncated.clear();
  own_.abnormal.clear();
  own_.finished.clear();
  own_.rows.clear();
  std::optional<BatchBuilder>& final_obs = players_[player].final_obs;
  if (!final_obs.has_value()) {
    DING_ASSIGN_OR_RETURN(
        final_obs, BatchBuilder::Create(players_[player].observation, traj.options().env_num));
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
    own_.rows.push_back(row);
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
  const SpecPtr& info = traj.layout().info;
  if (info != nullptr) {
    std::optional<BatchBuilder>& infos = players_[player].info;
    if (!infos.has_value()) {
      DING_ASSIGN_OR_RETURN(infos, BatchBuilder::Create(info, traj.options().env_num));
    }
    GatherRows(timesteps.info, own_.rows, infos->view(), 0);
    own.info = infos->view().Slice(0, static_cast<int64_t>(own_.rows.size()));
  }
  own.final_obs = final_obs->view().Slice(0, static_cast<int64_t>(own_.finished.size()));
  return traj.Store(own);
}

void PlayerRows::EndGames(const Timesteps& timesteps) {
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

absl::Status PlayerRows::SaveState(StateWriter* writer) const {
  for (int i = 0; i < players(); ++i) {
    ScopedStateWriter scoped(writer, TrajScope(i));
    DING_RETURN_IF_ERROR(of(i).SaveState(&scoped));
  }
  return absl::OkStatus();
}

absl::Status PlayerRows::LoadState(StateReader* reader, std::vector<TrajBuffer> fresh) {
  for (int i = 0; i < players(); ++i) {
    ScopedStateReader scoped(reader, TrajScope(i));
    DING_RETURN_IF_ERROR(fresh[i].LoadState(&scoped));
  }
  for (int i = 0; i < players(); ++i) players_[i].traj = std::move(fresh[i]);
  return absl::OkStatus();
}

}  // namespace ding
