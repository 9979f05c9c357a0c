// TicTacToe, solved: the value of every position under best play of both sides, and a player that
// never loses.
//
// All 5478 positions are worked out at the first use (a millisecond) and kept for the life of the
// process.
//
// Threads: thread-safe.
//
// Example:
//   EXPECT_EQ(TicTacToeValue(TicTacToe()), 0);   // a draw
#ifndef DING_WORKER_ENV_BOARD_GAMES_TIC_TAC_TOE_SOLUTION_H_
#define DING_WORKER_ENV_BOARD_GAMES_TIC_TAC_TOE_SOLUTION_H_

#include <cstdint>

#include "ding_worker/base/rng.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/tic_tac_toe.h"

namespace ding {

// For the side to move: 1 it wins, 0 a draw, -1 it loses. Of a game that is over: as it ended.
int TicTacToeValue(const TicTacToe& position);

// The moves, a bit each, that keep the value of a position that is not over.
uint32_t TicTacToeBestMoves(const TicTacToe& position);

// Any of the best moves, uniformly.
class PerfectTicTacToePlayer : public BoardPlayer<TicTacToe> {
 public:
  int Choose(const TicTacToe& position, Rng* rng) const override {
    return DrawMove(TicTacToeBestMoves(position), rng);
  }
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_TIC_TAC_TOE_SOLUTION_H_
