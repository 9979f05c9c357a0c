// The solution of TicTacToe: the value of every position under best play of both sides, and a player
// that never loses.
//
// The first use solves all 5478 positions, which takes a millisecond; the table is kept for the life
// of the process.
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

// Returns the value for the side to move: 1 win, 0 draw, -1 loss. If the game is over, its result.
int TicTacToeValue(const TicTacToe& position);

// Returns the set of best moves, one bit per move, of a position that is not over.
uint32_t TicTacToeBestMoves(const TicTacToe& position);

// Draws uniformly from the best moves.
class PerfectTicTacToePlayer : public BoardPlayer<TicTacToe> {
 public:
  int Choose(const TicTacToe& position, Rng* rng) const override {
    return DrawMove(TicTacToeBestMoves(position), rng);
  }
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_TIC_TAC_TOE_SOLUTION_H_
