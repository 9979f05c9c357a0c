// How well a policy plays a board game, measured in a way that does not depend on luck or on what
// it was trained against.
//
//     TicTacToe     against everything that the other side can do, first and second: a proof
//     Connect Four  against a search of fixed depth, from sampled openings, each with both colours
//
// Threads: thread-safe.   Errors: as of LoadEvalPolicy() (worker/setup/experiment_setup.h).
//
// Example:
//   DING_ASSIGN_OR_RETURN(const AllReplies games, PlayTicTacToe("run/ckpt/ckpt_best", /*side=*/0));
#ifndef DING_WORKER_WORKER_LEARNING_BARS_BOARD_GAME_BARS_H_
#define DING_WORKER_WORKER_LEARNING_BARS_BOARD_GAME_BARS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/env/board_games/exhaustive_play.h"

namespace ding {

// All games in which the policy in a checkpoint of TicTacToe plays `side` (0 begins).
absl::StatusOr<AllReplies> PlayTicTacToe(const std::string& checkpoint, int side);

struct SearchGames {
  int64_t won = 0;
  int64_t drawn = 0;
  int64_t lost = 0;

  int64_t games() const { return won + drawn + lost; }
  double win_rate() const { return static_cast<double>(won) / static_cast<double>(games()); }
};

// Plays the policy in a checkpoint of Connect Four against ConnectFourSearch(depth): `openings`
// openings of `opening_moves` random moves, 0 to ConnectFour::kMaxOpening, each twice, with the
// colours exchanged. Openings and the opponent's draws derive from `seed`.
absl::StatusOr<SearchGames> PlayConnectFour(const std::string& checkpoint, int depth, int openings,
                                            int opening_moves, uint64_t seed);

}  // namespace ding

#endif  // DING_WORKER_WORKER_LEARNING_BARS_BOARD_GAME_BARS_H_
