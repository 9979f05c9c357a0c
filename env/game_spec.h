// Games: envs whose players all act in every step. Each player has an observation and an action of its
// own. In most games these have the same spec for all players, so that one policy can play any of them; in
// an asymmetric game they differ, so that each player needs a policy of its own. In a game of turns, a
// player that has to wait has exactly one legal action (a mask with a single 1).
//
//     what one player sees      the env's fields, for 2 players
//     obs/board                 obs/0/board, obs/0/action_mask, obs/1/board, obs/1/action_mask
//     obs/action_mask
//     action                    action/0, action/1
//
// The fields of a player are adjacent, so that a player's observation is a view of the env's columns,
// without a copy.
//
// Threads: thread-safe.
//
// Example (in the constructor of a game):
//   DING_ASSIGN_OR_RETURN(spec_, GameSpec(one_player, /*players=*/2));
//   DING_ASSIGN_OR_RETURN(spec_, GameSpec({pursuer, evader}));  // asymmetric
#ifndef DING_WORKER_ENV_GAME_SPEC_H_
#define DING_WORKER_ENV_GAME_SPEC_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"

namespace ding {

// Returns the spec of a game of `players` players with the spaces of `player`. kInvalidArgument if
// `player` is not valid or `players` is below 2.
absl::StatusOr<EnvSpec> GameSpec(const EnvSpec& player, int players);
// Returns the spec of a game of these players. Its name, range of rewards and max_episode_steps are those of
// the first. kInvalidArgument likewise.
absl::StatusOr<EnvSpec> GameSpec(const std::vector<EnvSpec>& players);

// Returns the spec of one player of `game`, which must be valid; for a single-player env, its spec. Without
// `player`, that of player 0: for games with CheckSamePlayers() it is that of all.
EnvSpec PlayerSpec(const EnvSpec& game, int player = 0);

// OK if the players `first`, first + 1, ... have observations and actions of the same names, types and
// shapes, so that one policy can play all of them. Else kInvalidArgument lists the differences. Bounds may
// differ. OK for a single-player env.
absl::Status CheckSamePlayers(const EnvSpec& game, int first = 0);

// Returns the view of a player of the env's observations `obs`. `player_obs`, the observation of its
// PlayerSpec(), must outlive the view; `first_field` is FirstObsField().
inline ColumnsView PlayerObs(const ColumnsView& obs, const Spec* player_obs, int first_field) {
  return obs.Fields(player_obs, first_field);
}

}  // namespace ding

#endif  // DING_WORKER_ENV_GAME_SPEC_H_
