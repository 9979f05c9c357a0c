// Connect Four: its rules, and a player that searches. Two sides in turn drop a stone into one of 7
// columns of 6 rows, where it falls onto the stones below; four in a line, in any direction, win.
//
// Threads: a position is a value, thread-compatible; a player is thread-safe.
//
// Example:
//   ConnectFour position;
//   const ConnectFourSearch player(/*depth=*/4);
//   position.Play(player.Choose(position, &rng));
#ifndef DING_WORKER_ENV_BOARD_GAMES_CONNECT_FOUR_H_
#define DING_WORKER_ENV_BOARD_GAMES_CONNECT_FOUR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/env/board_games/board_player.h"

namespace ding {

// A position has one bit per cell, column by column, with an empty row above each column, so that
// no line continues into the next column (the usual layout for this game):
//
//     .  .  .  .  .  .  .          6 13 20 27 34 41 48      always empty
//     5 12 19 26 33 40 47          5 12 19 26 33 40 47
//     ...                          ...                      a shift by 1 is a step up, by 7 to the
//     0  7 14 21 28 35 42          0  7 14 21 28 35 42      right, by 8 and 6 along the diagonals
//
// A position type; env/board_games/tic_tac_toe.h describes its members. A move is a column.
class ConnectFour {
 public:
  // TicTacToe has the same members, as every position type does; here with the numbers and formulas
  // of this game.
  static constexpr const char* kName = "ConnectFour";
  static constexpr int kRows = 6;
  static constexpr int kColumns = 7;
  static constexpr int kMoves = 7;
  static constexpr int kCells = 42;
  static constexpr int kMaxOpening = 6;

  int moves() const { return moves_; }
  int to_move() const { return moves_ % 2; }

  bool HasWon(int side) const {
    const uint64_t of_side = stones(side);
    for (const int shift : {1, kHeight, kHeight + 1, kHeight - 1}) {
      const uint64_t pairs = of_side & (of_side >> shift);
      if ((pairs & (pairs >> (2 * shift))) != 0) return true;
    }
    return false;
  }
  bool over() const { return moves_ == kCells || HasWon(0) || HasWon(1); }

  bool CanPlay(int move) const {
    return move >= 0 && move < kMoves && (occupied() & Bit(move, kRows - 1)) == 0;
  }
  void Play(int move) {
    DING_CHECK(move >= 0 && move < kMoves) << "there is no move " << move;
    // Adding 1 at the bottom of a column carries to its first empty cell.
    const uint64_t column = ((uint64_t{1} << kRows) - 1) << (kHeight * move);
    stones_[to_move()] |= ((occupied() & column) + Bit(move, 0)) & column;
    ++moves_;
  }

  bool Has(int side, int row, int column) const {
    DING_CHECK(row >= 0 && row < kRows && column >= 0 && column < kColumns)
        << "there is no cell " << row << ", " << column;
    return (stones(side) & Bit(column, kRows - 1 - row)) != 0;
  }

  uint64_t stones(int side) const {
    DING_CHECK(side == 0 || side == 1) << "there is no side " << side;
    return stones_[static_cast<size_t>(side)];
  }
  static std::optional<ConnectFour> FromStones(uint64_t first, uint64_t second) {
    const int count = __builtin_popcountll(first);
    const int other_count = __builtin_popcountll(second);
    if ((first & second) != 0 || (count != other_count && count != other_count + 1)) {
      return std::nullopt;
    }
    // Refuse stones above an empty cell or above the board.
    ConnectFour position;
    for (int column = 0; column < kColumns; ++column) {
      int height = 0;
      while (height < kRows && ((first | second) & Bit(column, height)) != 0) ++height;
      position.stones_[0] |= first & (Bit(column, height) - Bit(column, 0));
      position.stones_[1] |= second & (Bit(column, height) - Bit(column, 0));
    }
    position.moves_ = count + other_count;
    if (position.stones_ != std::array<uint64_t, 2>{first, second}) return std::nullopt;
    // The side that completed a line must have moved last.
    if (position.HasWon(position.to_move())) return std::nullopt;
    return position;
  }

 private:
  static constexpr int kHeight = kRows + 1;

  // The bit of the cell `height` steps above the lowest row.
  static constexpr uint64_t Bit(int column, int height) {
    return uint64_t{1} << (kHeight * column + height);
  }
  uint64_t occupied() const { return stones_[0] | stones_[1]; }

  std::array<uint64_t, 2> stones_{};
  int moves_ = 0;
};

// A player that searches a fixed number of moves ahead by alpha-beta, and evaluates the
// positions at the end by counting lines.
//
// Evaluation: among the 69 lines of four cells, a line with two stones of one side and none of the
// other counts 1 for that side, a line with three counts 5. A win counts kWin minus the number of
// moves made by then, so that the player prefers a quick win and a late loss.
//
// Alpha-beta is exact: Value() equals plain minimax to the same depth. Depth 2 sees its own wins
// and the opponent's replies that win; depth 4 sees simple traps and wins about three games of four
// against depth 2.
class ConnectFourSearch : public BoardPlayer<ConnectFour> {
 public:
  static constexpr int kWin = 10000;  // more than the sum of all lines
  static constexpr int kMaxDepth = 12;

  // Looks `depth` moves ahead, 1 to kMaxDepth.
  explicit ConnectFourSearch(int depth);

  // Evaluates a position that is not over, for the side to move.
  static int Evaluate(const ConnectFour& position);
  // Returns the minimax value for the side to move, `depth` moves ahead.
  static int Value(const ConnectFour& position, int depth);
  // Returns the set of moves with the best value, one bit per move. `position` must not be over.
  uint32_t BestMoves(const ConnectFour& position) const;
  // Draws uniformly from the best moves.
  int Choose(const ConnectFour& position, Rng* rng) const override {
    return DrawMove(BestMoves(position), rng);
  }

 private:
  const int depth_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_CONNECT_FOUR_H_
