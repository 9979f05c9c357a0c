// The observation of one side of a board game, and its action mask:
//
//     board  float32 [3, rows, columns]   plane 0: own stones, 1: the opponent's, 2: all 1 if it is
//                                         this side's turn, else 0; row 0 is the upper one
//     mask   bool [moves + 1]             1 for a legal move; the last element is to wait
//
// Waiting is the only legal action of the side whose turn it is not, and of both sides when the game
// is over, so that a mask always allows an action.
//
// Position: env/board_games/tic_tac_toe.h.   Threads: thread-safe.
#ifndef DING_WORKER_ENV_BOARD_GAMES_BOARD_VIEW_H_
#define DING_WORKER_ENV_BOARD_GAMES_BOARD_VIEW_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"

namespace ding {

template <typename Position>
void ShowBoard(const Position& position, int side, absl::Span<float> board,
               absl::Span<uint8_t> mask) {
  float* own = board.data();
  float* other = own + Position::kCells;
  for (int row = 0; row < Position::kRows; ++row) {
    for (int column = 0; column < Position::kColumns; ++column) {
      *own++ = position.Has(side, row, column) ? 1 : 0;
      *other++ = position.Has(1 - side, row, column) ? 1 : 0;
    }
  }
  const bool turn = !position.over() && position.to_move() == side;
  std::fill_n(other, Position::kCells, turn ? 1.0f : 0.0f);
  for (int move = 0; move < Position::kMoves; ++move) {
    mask[static_cast<size_t>(move)] = turn && position.CanPlay(move) ? 1 : 0;
  }
  mask[Position::kMoves] = turn ? 0 : 1;
}

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_BOARD_VIEW_H_
