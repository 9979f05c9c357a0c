// Opponents in board games (BoardPlayer), and the observation of a side (ShowBoard). A Position is
// a position type (env/board_games/tic_tac_toe.h).
//
// Threads: thread-safe.
#ifndef DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_
#define DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"

namespace ding {

// An opponent in a board game: it chooses a move for the side to move.
//
// A player keeps no state between moves and takes all randomness from the caller's stream, so that
// a game is a function of its seed and can be saved between moves.
template <typename Position>
class BoardPlayer {
 public:
  virtual ~BoardPlayer() = default;
  // Returns a legal move. `position` must not be over.
  virtual int Choose(const Position& position, Rng* rng) const = 0;
};

// Returns the `index`-th move of a set with one bit per move.
inline int MoveOf(uint32_t moves, uint64_t index) {
  while (index-- > 0 && moves != 0) moves &= moves - 1;
  DING_CHECK(moves != 0) << "the set has fewer moves";
  return __builtin_ctz(moves);
}

// Draws a move uniformly from the set, which must not be empty.
inline int DrawMove(uint32_t moves, Rng* rng) {
  return MoveOf(moves, rng->UniformInt(static_cast<uint64_t>(__builtin_popcount(moves))));
}

// Returns the set of legal moves of a position that is not over.
template <typename Position>
uint32_t LegalMoves(const Position& position) {
  uint32_t moves = 0;
  for (int move = 0; move < Position::kMoves; ++move) {
    if (position.CanPlay(move)) moves |= 1u << move;
  }
  return moves;
}

// Draws uniformly from the legal moves.
template <typename Position>
class RandomBoardPlayer : public BoardPlayer<Position> {
 public:
  int Choose(const Position& position, Rng* rng) const override {
    return DrawMove(LegalMoves(position), rng);
  }
};

// Writes the observation of one side of a board game, and its action mask:
//
//     board  float32 [3, rows, columns]   plane 0: own stones, 1: the opponent's, 2: all 1 if it is
//                                         this side's turn, else 0; row 0 is the upper one
//     mask   bool [moves + 1]             1 for a legal move; the last element is to wait
//
// Waiting is the only legal action of the side that is not to move, and of both sides when the game
// is over. So a mask always allows an action.
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

#endif  // DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_
