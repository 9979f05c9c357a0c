// Games: envs whose players all act in every step. Each player sees an observation of its own and
// takes an action of its own, of the same kind as all others', so that one policy can play any of
// them. In a game of turns, a player who has to wait gets one legal action (a mask with one 1).
//
//     what one player sees      the env's fields, for 2 players
//     obs/board                 obs/0/board, obs/0/action_mask, obs/1/board, obs/1/action_mask
//     obs/action_mask
//     action                    action/0, action/1
//
// The fields of a player lie side by side, so that what a player sees is a view of the env's
// columns, without a copy.
//
// Threads: thread-safe.
//
// Example (in the constructor of a game):
//   DING_ASSIGN_OR_RETURN(spec_, GameSpec(one_player, /*players=*/2));
#ifndef DING_WORKER_ENV_GAME_SPEC_H_
#define DING_WORKER_ENV_GAME_SPEC_H_

#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"

namespace ding {

// The spec of a game whose players see and do what `player` says. kInvalidArgument if that is not
// valid, or `players` is below 2.
absl::StatusOr<EnvSpec> GameSpec(const EnvSpec& player, int players);

// What one player of a game sees and does; of an env for one, its spec. `game` is valid.
EnvSpec PlayerSpec(const EnvSpec& game);

// What `player` sees, out of what the env shows. `player_obs`, the observation of PlayerSpec(), must
// outlive it.
inline ColumnsView PlayerObs(const ColumnsView& obs, const Spec* player_obs, int player) {
  return obs.Fields(player_obs, player * player_obs->size());
}

}  // namespace ding

#endif  // DING_WORKER_ENV_GAME_SPEC_H_
