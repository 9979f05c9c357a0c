// Board games as envs: of two players, or of one against an opponent that the env plays.
//
//     player 0, 1   of the env: which policy acts; player 0 is the one of an env for one
//     side 0, 1     of the board: who begins, who answers
//
// Per player: obs/board and obs/action_mask (env/board_games/board_view.h); action: a move, or, as
// the last category, to wait. In the game of two, whose turn it is not waits, so that every step is
// one move, and both see every position; for one, a step is a move of the player and the answer.
// What a player sees and does is the same in both, so that a policy can go from one to the other.
//
// Reward: 1 to who wins and -1 to who loses, with the last move; else 0. An episode terminates with
// the game; a limit of steps is never reached before.
//
// An episode starts from its seed: which player begins, unless that is fixed; and `opening_moves`
// moves, uniform among the legal ones, that no player chose. Parameters of a reset take the place
// of options: "first_player", "opening_moves".
//
// Threads: as Env.   Errors: an option or parameter out of range; a step that is illegal or comes
// after the end; a saved state that no game leads to.
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
  std::optional<int> first_player;  // 0 or 1; unset: drawn, each as likely
  int opening_moves = 0;            // 0 to Position::kMaxOpening, which end no game
};

// The game of two, named Position::kName. For TicTacToe and ConnectFour.
template <typename Position>
absl::StatusOr<std::unique_ptr<Env>> CreateBoardGame(const BoardGameOptions& options);

// The game of one against `opponent`, which several envs may share.
template <typename Position>
absl::StatusOr<std::unique_ptr<Env>> CreateBoardGameAgainst(
    absl::string_view name, std::shared_ptr<const BoardPlayer<Position>> opponent,
    const BoardGameOptions& options);

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_BOARD_GAME_ENV_H_
