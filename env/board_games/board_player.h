// An opponent in a board game: it chooses a move for the side to move.
//
// A player keeps no state between moves and takes all randomness from the caller's stream, so that a
// game is a function of its seed and can be saved between moves.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_
#define DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_

#include <cstdint>

#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"

namespace ding {

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

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_BOARD_PLAYER_H_
