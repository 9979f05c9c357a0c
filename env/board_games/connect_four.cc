#include "ding_worker/env/board_games/connect_four.h"

#include <algorithm>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

// Greater than any value.
constexpr int kInfinity = 2 * ConnectFourSearch::kWin;

// The first cells of lines of four, in columns 0 to `columns` - 1 and rows `low` to `high`, as bits
// of ConnectFour::stones().
constexpr uint64_t Starts(int columns, int low, int high) {
  uint64_t starts = 0;
  for (int column = 0; column < columns; ++column) {
    for (int row = low; row <= high; ++row) {
      starts |= uint64_t{1} << ((ConnectFour::kRows + 1) * column + row);
    }
  }
  return starts;
}

// The lines of one direction: their first cells, and the shift from cell to cell.
struct Lines {
  uint64_t starts;
  int shift;
};
constexpr Lines kUp = {Starts(7, 0, 2), 1};
constexpr Lines kRight = {Starts(4, 0, 5), 7};
constexpr Lines kUpRight = {Starts(4, 0, 2), 8};
constexpr Lines kDownRight = {Starts(4, 3, 5), 6};

// The value for `own` of all lines of one direction, counted in parallel with one bit per line.
int CountLines(const Lines& lines, uint64_t own, uint64_t other) {
  const int shift = lines.shift;
  const uint64_t blocked = other | other >> shift | other >> (2 * shift) | other >> (3 * shift);
  const uint64_t open = lines.starts & ~blocked;
  const uint64_t a = own;
  const uint64_t b = own >> shift;
  const uint64_t c = own >> (2 * shift);
  const uint64_t d = own >> (3 * shift);
  const uint64_t one_of_ab = a ^ b;
  const uint64_t one_of_cd = c ^ d;
  const uint64_t two = (a & b & ~(c | d)) | (c & d & ~(a | b)) | (one_of_ab & one_of_cd);
  const uint64_t three = (one_of_ab & c & d) | (one_of_cd & a & b);
  return __builtin_popcountll(two & open) + 5 * __builtin_popcountll(three & open);
}

// Columns from the middle outwards: trying better moves first prunes more.
constexpr int kOrder[] = {3, 2, 4, 1, 5, 0, 6};

// Returns the value if it is inside (alpha, beta), else a bound on that side.
int Search(const ConnectFour& position, int depth, int alpha, int beta) {
  if (position.HasWon(1 - position.to_move())) {
    return position.moves() - ConnectFourSearch::kWin;
  }
  if (position.moves() == ConnectFour::kCells) return 0;
  if (depth == 0) return ConnectFourSearch::Evaluate(position);
  int best = -kInfinity;
  for (const int move : kOrder) {
    if (!position.CanPlay(move)) continue;
    ConnectFour next = position;
    next.Play(move);
    best = std::max(best, -Search(next, depth - 1, -beta, -alpha));
    alpha = std::max(alpha, best);
    if (alpha >= beta) break;
  }
  return best;
}

}  // namespace

ConnectFourSearch::ConnectFourSearch(int depth) : depth_(depth) {
  DING_CHECK(depth >= 1 && depth <= kMaxDepth) << "depth " << depth;
}

int ConnectFourSearch::Evaluate(const ConnectFour& position) {
  const uint64_t own = position.stones(position.to_move());
  const uint64_t other = position.stones(1 - position.to_move());
  int value = 0;
  for (const Lines& lines : {kUp, kRight, kUpRight, kDownRight}) {
    value += CountLines(lines, own, other) - CountLines(lines, other, own);
  }
  return value;
}

int ConnectFourSearch::Value(const ConnectFour& position, int depth) {
  return Search(position, depth, -kInfinity, kInfinity);
}

uint32_t ConnectFourSearch::BestMoves(const ConnectFour& position) const {
  uint32_t moves = 0;
  int best = -kInfinity;
  for (const int move : kOrder) {
    if (!position.CanPlay(move)) continue;
    ConnectFour next = position;
    next.Play(move);
    // The window makes the value exact from `best` on, so that equally good moves are found.
    const int value = -Search(next, depth_ - 1, -kInfinity, -(best - 1));
    if (value < best) continue;
    if (value > best) moves = 0;
    best = value;
    moves |= 1u << move;
  }
  return moves;
}

}  // namespace ding
