// TicTacToe: its rules, the value of every position under best play, and the perfect player. Two
// sides in turn put a stone on a board of 3 x 3 cells; three in a row, column or diagonal win.
//
// A position type, the template parameter of the generic code in this folder, has these members:
//
//     static constexpr const char* kName;
//     static constexpr int kRows, kColumns, kMoves, kCells;
//     static constexpr int kMaxOpening;   the most moves that cannot end a game
//     int moves() const;                  stones on the board
//     int to_move() const;                side 0 or 1
//     bool HasWon(int side) const;
//     bool over() const;
//     bool CanPlay(int move) const;       does not depend on over()
//     void Play(int move);                a move of the side to move
//     bool Has(int side, int row, int column) const;   row 0 is the upper one
//     uint64_t stones(int side) const;
//     static std::optional<Position> FromStones(uint64_t, uint64_t);   null if impossible
//
// Threads: a position is a value, thread-compatible; functions and players are thread-safe.
//
// Example:
//   TicTacToe game;
//   game.Play(4);
//   EXPECT_EQ(game.to_move(), 1);
//   EXPECT_EQ(TicTacToeValue(game), 0);  // a draw
#ifndef DING_WORKER_ENV_BOARD_GAMES_TIC_TAC_TOE_H_
#define DING_WORKER_ENV_BOARD_GAMES_TIC_TAC_TOE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/env/board_games/board_player.h"

namespace ding {

//     cells = moves   0 1 2
//                     3 4 5      side 0 begins
//                     6 7 8
class TicTacToe {
 public:
  static constexpr const char* kName = "TicTacToe";
  static constexpr int kRows = 3;
  static constexpr int kColumns = 3;
  static constexpr int kMoves = 9;
  static constexpr int kCells = 9;
  static constexpr int kMaxOpening = 4;

  int moves() const { return moves_; }
  int to_move() const { return moves_ % 2; }

  bool HasWon(int side) const {
    constexpr uint32_t kLines[] = {0007, 0070, 0700, 0111, 0222, 0444, 0421, 0124};
    const uint64_t of_side = stones(side);
    for (const uint32_t line : kLines) {
      if ((of_side & line) == line) return true;
    }
    return false;
  }
  bool over() const { return moves_ == kCells || HasWon(0) || HasWon(1); }

  bool CanPlay(int move) const {
    return move >= 0 && move < kMoves && ((stones_[0] | stones_[1]) >> move & 1) == 0;
  }
  void Play(int move) {
    DING_CHECK(move >= 0 && move < kMoves) << "there is no move " << move;
    stones_[to_move()] |= 1u << move;
    ++moves_;
  }

  bool Has(int side, int row, int column) const {
    DING_CHECK(row >= 0 && row < kRows && column >= 0 && column < kColumns)
        << "there is no cell " << row << ", " << column;
    return (stones(side) >> (kColumns * row + column) & 1) != 0;
  }

  // Bit i is cell i.
  uint64_t stones(int side) const {
    DING_CHECK(side == 0 || side == 1) << "there is no side " << side;
    return stones_[static_cast<size_t>(side)];
  }
  static std::optional<TicTacToe> FromStones(uint64_t first, uint64_t second) {
    constexpr uint64_t kBoard = 0777;
    const int count = __builtin_popcountll(first);
    const int other_count = __builtin_popcountll(second);
    if ((first & second) != 0 || ((first | second) & ~kBoard) != 0) return std::nullopt;
    if (count != other_count && count != other_count + 1) return std::nullopt;
    TicTacToe position;
    position.stones_ = {static_cast<uint32_t>(first), static_cast<uint32_t>(second)};
    position.moves_ = count + other_count;
    // The side that completed a line must have moved last.
    if (position.HasWon(position.to_move())) return std::nullopt;
    return position;
  }

 private:
  std::array<uint32_t, 2> stones_{};
  int moves_ = 0;
};

// Returns the value under best play of both sides, for the side to move: 1 win, 0 draw, -1 loss. If
// the game is over, its result. The first use solves all 5478 positions, which takes a millisecond;
// the table is kept for the life of the process.
int TicTacToeValue(const TicTacToe& position);

// Returns the set of best moves, one bit per move, of a position that is not over.
uint32_t TicTacToeBestMoves(const TicTacToe& position);

// Never loses: draws uniformly from the best moves.
class PerfectTicTacToePlayer : public BoardPlayer<TicTacToe> {
 public:
  int Choose(const TicTacToe& position, Rng* rng) const override {
    return DrawMove(TicTacToeBestMoves(position), rng);
  }
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_TIC_TAC_TOE_H_
