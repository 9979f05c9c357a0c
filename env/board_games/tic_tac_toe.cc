#include "ding_worker/env/board_games/tic_tac_toe.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ding {
namespace {

constexpr size_t kBoards = 19683;  // 3^9, including boards that cannot occur in a game
constexpr int8_t kUnknown = 2;

// The board as a number in base 3, one digit per cell: empty, side 0, side 1.
size_t Index(const TicTacToe& position) {
  size_t index = 0;
  for (int cell = TicTacToe::kCells; cell-- > 0;) {
    const size_t stone = (position.stones(0) >> cell & 1) + 2 * (position.stones(1) >> cell & 1);
    index = 3 * index + stone;
  }
  return index;
}

// Solves `position` and all its successors; returns its value.
int8_t Solve(const TicTacToe& position, std::vector<int8_t>* values) {
  int8_t& value = (*values)[Index(position)];
  if (value != kUnknown) return value;
  if (position.HasWon(1 - position.to_move())) return value = -1;
  if (position.over()) return value = 0;
  int8_t best = -1;
  for (int move = 0; move < TicTacToe::kMoves; ++move) {
    if (!position.CanPlay(move)) continue;
    TicTacToe next = position;
    next.Play(move);
    best = std::max<int8_t>(best, static_cast<int8_t>(-Solve(next, values)));
  }
  return value = best;
}

std::vector<int8_t> SolveAll() {
  std::vector<int8_t> values(kBoards, kUnknown);
  Solve(TicTacToe(), &values);
  return values;
}

}  // namespace

int TicTacToeValue(const TicTacToe& position) {
  static const auto* const values = new std::vector<int8_t>(SolveAll());
  return (*values)[Index(position)];
}

uint32_t TicTacToeBestMoves(const TicTacToe& position) {
  const int value = TicTacToeValue(position);
  uint32_t moves = 0;
  for (int move = 0; move < TicTacToe::kMoves; ++move) {
    if (!position.CanPlay(move)) continue;
    TicTacToe next = position;
    next.Play(move);
    if (-TicTacToeValue(next) == value) moves |= 1u << move;
  }
  return moves;
}

}  // namespace ding
