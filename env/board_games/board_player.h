// Who plays the other side of a board game: chooses a move for the side to move.
//
// A player keeps nothing from move to move: all that is random comes from the caller's stream, so
// that a game is a function of its seed and can be saved in the middle.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_
#define DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_

#include <cstdint>

#include "ding_worker/base/rng.h"

namespace ding {

template <typename Position>
class BoardPlayer {
 public:
  virtual ~BoardPlayer() = default;
  // A legal move; `position` is not over.
  virtual int Choose(const Position& position, Rng* rng) const = 0;
};

// The `index`-th move of a set, which is a bit for each move.
inline int MoveOf(uint32_t moves, uint64_t index) {
  while (index-- > 0) moves &= moves - 1;
  return __builtin_ctz(moves);
}

// One move of the set, uniformly; there is one at least.
inline int DrawMove(uint32_t moves, Rng* rng) {
  return MoveOf(moves, rng->UniformInt(static_cast<uint64_t>(__builtin_popcount(moves))));
}

// The legal moves of a position that is not over.
template <typename Position>
uint32_t LegalMoves(const Position& position) {
  uint32_t moves = 0;
  for (int move = 0; move < Position::kMoves; ++move) {
    if (position.CanPlay(move)) moves |= 1u << move;
  }
  return moves;
}

// Any legal move, uniformly.
template <typename Position>
class RandomBoardPlayer : public BoardPlayer<Position> {
 public:
  int Choose(const Position& position, Rng* rng) const override {
    return DrawMove(LegalMoves(position), rng);
  }
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_
