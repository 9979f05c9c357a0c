// The rows that a collector has made: a TrajBuffer for each player of its envs. In a game it splits
// the answers of the envs among the players, also if a player ends before the game
// (EnvManager::plays()).
//
// Ownership: owns the rows.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_CORE_PLAYER_ROWS_H_
#define DING_WORKER_COLLECTOR_CORE_PLAYER_ROWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class PlayerRows {
 public:
  struct Options {
    int64_t stream_base = 0;  // the stream of player p in env i is stream_base + i * players + p
    // As in TrajBuffer. If a policy has traj_len_inf, the rows of its player are returned by whole
    // episodes in any case.
    bool whole_episodes = false;
    std::optional<int64_t> maxlen;
  };

  explicit PlayerRows(const Options& options) : options_(options) {}

  // Returns empty buffers for the rows of these policies, a policy per player, in `env`.
  //   kInvalidArgument  a policy cannot act in the env, or does not take its rewards
  absl::StatusOr<std::vector<TrajBuffer>> Make(const EnvManager& env,
                                               absl::Span<CollectMode* const> policies,
                                               bool with_level_seed) const;
  // Uses the buffers of Make() from now on. Keeps the rows of a player whose old buffer has the
  // same layout.
  void Use(const EnvSpec& env, std::vector<TrajBuffer> fresh);

  int players() const { return static_cast<int>(players_.size()); }
  TrajBuffer& of(int player) { return *players_[player].traj; }
  const TrajBuffer& of(int player) const { return *players_[player].traj; }
  // Whether rows have a level seed.
  bool with_level_seed() const { return players() > 0 && of(0).layout().level_seed >= 0; }
  // Returns the view of `player` of the env's observations.
  ColumnsView ObsOf(int player, const ColumnsView& obs) const {
    return PlayerObs(obs, players_[player].observation.get(), players_[player].first_field);
  }

  // Stores the answers of the envs. kInternal for an env that was not stepped.
  absl::Status Store(const Timesteps& timesteps);
  // Whether the row of a player waits for the answer of this env.
  bool under_way(int env_id) const;
  // Drops the rows of the running episode of this env, of all players.
  void DropEpisode(int env_id);

  absl::Status SaveState(StateWriter* writer) const;
  // Uses the buffers `fresh`, which Make() returned, with the saved rows. A failure changes
  // nothing.
  absl::Status LoadState(StateReader* reader, std::vector<TrajBuffer> fresh);

 private:
  struct Player {
    std::optional<TrajBuffer> traj;
    SpecPtr observation;
    int first_field = 0;                    // index of its first field in the env obs
    std::optional<BatchBuilder> final_obs;  // scratch of StoreWithEnds()
    std::optional<BatchBuilder> info;       // likewise
  };
  // The answers of a game for one player, if players end before it.
  struct OwnAnswers {
    std::vector<int> env_ids;
    std::vector<int64_t> rows;  // of the answers of the game
    std::vector<float> reward;
    std::vector<uint8_t> terminated, truncated, abnormal;
    std::vector<FinishedEpisode> finished;  // only their rows
  };

  absl::Status StoreOf(int player, const Timesteps& timesteps);
  // Likewise if a player of a game ends in this step or has ended before.
  absl::Status StoreWithEnds(int player, const Timesteps& timesteps);
  // Notes that the games that end in this step are over, or void, for all players.
  void EndGames(const Timesteps& timesteps);

  const Options options_;
  std::vector<Player> players_;
  std::vector<float> rewards_;  // scratch of StoreOf()
  OwnAnswers own_;              // scratch of StoreWithEnds()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_PLAYER_ROWS_H_
