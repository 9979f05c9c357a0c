// Board games as envs, for two players or for one player against an opponent that the env plays.
//
//     player 0, 1   which policy acts; a single-player env has player 0 only
//     side 0, 1     of the board: side 0 makes the first move
//
// Each player sees obs/board and obs/action_mask (env/board_games/board_player.h). Its action is a
// move or, as the last category, to wait. In a two-player game the other player waits, so that
// every step is one move and both players see every position. In a single-player env a step is a
// move of the player and the answer of the opponent. Both have the same spaces for a player, so a
// policy can play either.
//
// Reward: with the last move 1 for the winner and -1 for the loser, else 0. An episode terminates
// with the game and is never truncated.
//
// The seed of an episode decides which player begins, unless `first_player` is set, and the first
// `opening_moves` moves, which are drawn uniformly from the legal moves. The parameters
// "first_player" and "opening_moves" of a reset replace the options.
//
// Threads: as Env.   Errors: an option or parameter out of range, an illegal step, a step after the
// end of the game, a saved position that cannot occur in a game.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<Env> env, CreateBoardGame<TicTacToe>({}));
#ifndef DING_WORKER_ENV_BOARD_GAMES_BOARD_GAME_ENV_H_
#define DING_WORKER_ENV_BOARD_GAMES_BOARD_GAME_ENV_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/env.h"

namespace ding {

struct BoardGameOptions {
  std::optional<int> first_player;  // 0 or 1; unset: drawn with equal probability
  int opening_moves = 0;            // 0 to Position::kMaxOpening, too few to end a game
};

// Creates the two-player game Position::kName. Position is TicTacToe or ConnectFour.
template <typename Position>
absl::StatusOr<std::unique_ptr<Env>> CreateBoardGame(const BoardGameOptions& options);

// Creates the single-player env against `opponent`, which several envs may share.
template <typename Position>
absl::StatusOr<std::unique_ptr<Env>> CreateBoardGameAgainst(
    absl::string_view name, std::shared_ptr<const BoardPlayer<Position>> opponent,
    const BoardGameOptions& options);

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_BOARD_GAME_ENV_H_
