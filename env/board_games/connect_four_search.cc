#include "ding_worker/env/board_games/connect_four_search.h"

#include <algorithm>
#include <array>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr int kLines = 69;
// More than any value.
constexpr int kInfinity = 2 * ConnectFourSearch::kWin;

// The cells of all lines of four, as bits of ConnectFour::stones().
constexpr std::array<uint64_t, kLines> MakeLines() {
  constexpr int kHeight = ConnectFour::kRows + 1;
  constexpr int kSteps[][2] = {{0, 1}, {1, 0}, {1, 1}, {1, -1}};  // columns, rows
  std::array<uint64_t, kLines> lines{};
  size_t count = 0;
  for (const auto& step : kSteps) {
    for (int column = 0; column + 3 * step[0] < ConnectFour::kColumns; ++column) {
      for (int row = 0; row < ConnectFour::kRows; ++row) {
        const int last = row + 3 * step[1];
        if (last < 0 || last >= ConnectFour::kRows) continue;
        uint64_t line = 0;
        for (int i = 0; i < 4; ++i) {
          line |= uint64_t{1} << (kHeight * (column + i * step[0]) + row + i * step[1]);
        }
        lines[count++] = line;
      }
    }
  }
  return lines;
}

constexpr std::array<uint64_t, kLines> kLineCells = MakeLines();
static_assert(kLineCells[kLines - 1] != 0, "there are fewer lines");

// Columns from the middle outwards: the better moves first cut more.
constexpr int kOrder[] = {3, 2, 4, 1, 5, 0, 6};

// The value if it is inside (alpha, beta); else a bound of it on that side.
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
  // By the number of stones; a line that is full ended the game before.
  constexpr int kWeight[] = {0, 0, 1, 5, 0};
  const uint64_t own = position.stones(position.to_move());
  const uint64_t other = position.stones(1 - position.to_move());
  int value = 0;
  for (const uint64_t line : kLineCells) {
    if ((line & other) == 0) {
      value += kWeight[__builtin_popcountll(line & own)];
    } else if ((line & own) == 0) {
      value -= kWeight[__builtin_popcountll(line & other)];
    }
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
    // Exact from `best` on, so that moves as good as the best are known as such.
    const int value = -Search(next, depth_ - 1, -kInfinity, -(best - 1));
    if (value < best) continue;
    if (value > best) moves = 0;
    best = value;
    moves |= 1u << move;
  }
  return moves;
}

}  // namespace ding
