#include "ding_worker/env/board_games/connect_four.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ding_worker/base/rng.h"
#include "ding_worker/env/board_games/board_player.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// The longest line, counted stone by stone.
int LongestLine(const ConnectFour& position, int side) {
  int longest = 0;
  for (int row = 0; row < ConnectFour::kRows; ++row) {
    for (int column = 0; column < ConnectFour::kColumns; ++column) {
      for (const auto& [down, right] : {std::pair{0, 1}, {1, 0}, {1, 1}, {1, -1}}) {
        int length = 0;
        int r = row;
        int c = column;
        while (r < ConnectFour::kRows && c >= 0 && c < ConnectFour::kColumns &&
               position.Has(side, r, c)) {
          ++length;
          r += down;
          c += right;
        }
        longest = std::max(longest, length);
      }
    }
  }
  return longest;
}

// Visits all positions of random games.
template <typename Visit>
void VisitRandomGames(int games, const Visit& visit) {
  Rng rng(11, "test/games");
  const RandomBoardPlayer<ConnectFour> player;
  for (int i = 0; i < games; ++i) {
    ConnectFour position;
    while (!position.over()) {
      visit(position);
      position.Play(player.Choose(position, &rng));
    }
    visit(position);
  }
}

TEST(ConnectFourTest, FourInALineWin) {
  int wins = 0;
  int draws = 0;
  VisitRandomGames(2000, [&](const ConnectFour& position) {
    for (const int side : {0, 1}) {
      ASSERT_EQ(position.HasWon(side), LongestLine(position, side) >= 4);
      wins += position.HasWon(side);
    }
    draws += position.moves() == ConnectFour::kCells && !position.HasWon(0) && !position.HasWon(1);
  });
  EXPECT_GT(wins, 1900);
  EXPECT_GT(draws, 0);
}

TEST(ConnectFourTest, StonesFallOntoTheStonesBelow) {
  ConnectFour position;
  for (int i = 0; i < ConnectFour::kRows; ++i) {
    ASSERT_TRUE(position.CanPlay(2));
    position.Play(2);
    EXPECT_TRUE(position.Has(i % 2, ConnectFour::kRows - 1 - i, 2));
    EXPECT_FALSE(position.Has(1 - i % 2, ConnectFour::kRows - 1 - i, 2));
  }
  EXPECT_FALSE(position.CanPlay(2));
  EXPECT_TRUE(position.CanPlay(1));
  EXPECT_FALSE(position.CanPlay(-1));
  EXPECT_FALSE(position.CanPlay(ConnectFour::kMoves));
  EXPECT_FALSE(position.over());
}

TEST(ConnectFourTest, RestoresPositionsOfGamesAndRefusesOthers) {
  VisitRandomGames(50, [](const ConnectFour& position) {
    const auto restored = ConnectFour::FromStones(position.stones(0), position.stones(1));
    ASSERT_TRUE(restored.has_value());
    EXPECT_EQ(restored->moves(), position.moves());
    EXPECT_EQ(restored->over(), position.over());
  });
  EXPECT_FALSE(ConnectFour::FromStones(1, 1)) << "two stones in one cell";
  EXPECT_FALSE(ConnectFour::FromStones(2, 0)) << "a stone in the air";
  EXPECT_FALSE(ConnectFour::FromStones(0, 1)) << "side 1 began";
  EXPECT_FALSE(ConnectFour::FromStones(uint64_t{1} << 49, 0)) << "beside the board";
  EXPECT_FALSE(ConnectFour::FromStones(0b1010101, 0b0101010)) << "a column of seven";
  // Side 0 has four in a column, but side 1 has moved since.
  EXPECT_FALSE(ConnectFour::FromStones(0b1111, uint64_t{0b1111} << 14));
}

// The number of move sequences of length n is known as the perft of this game.
int64_t CountSequences(const ConnectFour& position, int depth) {
  if (depth == 0) return 1;
  if (position.over()) return 0;
  int64_t count = 0;
  for (int move = 0; move < ConnectFour::kMoves; ++move) {
    if (!position.CanPlay(move)) continue;
    ConnectFour next = position;
    next.Play(move);
    count += CountSequences(next, depth - 1);
  }
  return count;
}

TEST(ConnectFourTest, HasTheKnownNumberOfMoveSequences) {
  EXPECT_EQ(CountSequences(ConnectFour(), 6), 117649);
  EXPECT_EQ(CountSequences(ConnectFour(), 7), 823536);
  EXPECT_EQ(CountSequences(ConnectFour(), 8), 5673234);
}

// Plain minimax without pruning.
int Minimax(const ConnectFour& position, int depth) {
  if (position.HasWon(1 - position.to_move())) return position.moves() - ConnectFourSearch::kWin;
  if (position.over()) return 0;
  if (depth == 0) return ConnectFourSearch::Evaluate(position);
  int best = -2 * ConnectFourSearch::kWin;
  for (int move = 0; move < ConnectFour::kMoves; ++move) {
    if (!position.CanPlay(move)) continue;
    ConnectFour next = position;
    next.Play(move);
    best = std::max(best, -Minimax(next, depth - 1));
  }
  return best;
}

TEST(ConnectFourSearchTest, ValuesAndMovesEqualMinimax) {
  VisitRandomGames(12, [](const ConnectFour& position) {
    for (const int depth : {1, 2, 4}) {
      ASSERT_EQ(ConnectFourSearch::Value(position, depth), Minimax(position, depth));
      if (position.over()) continue;
      uint32_t best = 0;
      const int value = Minimax(position, depth);
      for (int move = 0; move < ConnectFour::kMoves; ++move) {
        if (!position.CanPlay(move)) continue;
        ConnectFour next = position;
        next.Play(move);
        if (-Minimax(next, depth - 1) == value) best |= 1u << move;
      }
      ASSERT_EQ(ConnectFourSearch(depth).BestMoves(position), best);
    }
  });
}

// The evaluation, counted cell by cell.
int EvaluateByHand(const ConnectFour& position) {
  constexpr int kWeight[] = {0, 0, 1, 5};
  int value = 0;
  for (int row = 0; row < ConnectFour::kRows; ++row) {
    for (int column = 0; column < ConnectFour::kColumns; ++column) {
      for (const auto& [down, right] : {std::pair{0, 1}, {1, 0}, {1, 1}, {1, -1}}) {
        int count[2] = {0, 0};
        int cells = 0;
        for (int i = 0; i < 4; ++i) {
          const int r = row + i * down;
          const int c = column + i * right;
          if (r >= ConnectFour::kRows || c < 0 || c >= ConnectFour::kColumns) break;
          ++cells;
          for (const int side : {0, 1}) count[side] += position.Has(side, r, c);
        }
        if (cells < 4) continue;
        const int own = count[position.to_move()];
        const int other = count[1 - position.to_move()];
        if (other == 0) value += kWeight[own];
        if (own == 0) value -= kWeight[other];
      }
    }
  }
  return value;
}

TEST(ConnectFourSearchTest, EvaluationCountsLines) {
  VisitRandomGames(100, [](const ConnectFour& position) {
    if (!position.over()) {
      ASSERT_EQ(ConnectFourSearch::Evaluate(position), EvaluateByHand(position));
    }
  });
}

TEST(ConnectFourSearchTest, WinsAtOnceAndPreventsALoss) {
  ConnectFour position;
  for (const int move : {3, 0, 3, 0, 3}) position.Play(move);
  const ConnectFourSearch two(2);
  EXPECT_EQ(two.BestMoves(position), 1u << 3) << "stops four in column 3";
  position.Play(6);
  EXPECT_EQ(two.BestMoves(position), 1u << 3) << "completes it";
}

// Counts the games that depth 4 wins; it begins every other game.
TEST(ConnectFourSearchTest, BeatsRandomPlayAndAShallowerSearch) {
  const ConnectFourSearch four(4);
  const ConnectFourSearch two(2);
  const RandomBoardPlayer<ConnectFour> random;
  const auto points = [&four](const BoardPlayer<ConnectFour>& other, int games) {
    Rng rng(5, "test/match");
    double sum = 0;
    for (int i = 0; i < games; ++i) {
      ConnectFour position;
      while (!position.over()) {
        const bool own = position.to_move() == i % 2;
        position.Play(own ? four.Choose(position, &rng) : other.Choose(position, &rng));
      }
      sum += position.HasWon(i % 2) ? 1 : position.HasWon(1 - i % 2) ? 0 : 0.5;
    }
    return sum / games;
  };
  EXPECT_GE(points(random, 100), 0.99);
  EXPECT_GE(points(two, 200), 0.6);
}

TEST(ConnectFourSearchTest, IsAFunctionOfItsSeed) {
  const ConnectFourSearch player(2);
  const auto game = [&player](uint64_t seed) {
    Rng rng(seed, "test/seed");
    ConnectFour position;
    while (!position.over()) position.Play(player.Choose(position, &rng));
    return position.stones(0);
  };
  EXPECT_EQ(game(1), game(1));
  EXPECT_TRUE(game(1) != game(2) || game(2) != game(3)) << "equal moves are drawn from";
}

}  // namespace
}  // namespace ding
