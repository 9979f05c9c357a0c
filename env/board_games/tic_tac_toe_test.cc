#include "ding_worker/env/board_games/tic_tac_toe.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/exhaustive_play.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

struct Counts {
  std::set<std::pair<uint64_t, uint64_t>> positions;
  int64_t games = 0;
  int64_t won[2] = {0, 0};
};

void CountAll(const TicTacToe& position, Counts* counts) {
  counts->positions.insert({position.stones(0), position.stones(1)});
  if (position.over()) {
    ++counts->games;
    for (const int side : {0, 1}) counts->won[side] += position.HasWon(side);
    return;
  }
  for (int move = 0; move < TicTacToe::kMoves; ++move) {
    if (!position.CanPlay(move)) continue;
    TicTacToe next = position;
    next.Play(move);
    CountAll(next, counts);
  }
}

// The known numbers: 255168 games, of which the first side wins 131184 and the second 77904,
// through 5478 positions.
TEST(TicTacToeTest, HasTheKnownNumberOfGamesAndPositions) {
  Counts counts;
  CountAll(TicTacToe(), &counts);
  EXPECT_EQ(counts.games, 255168);
  EXPECT_EQ(counts.won[0], 131184);
  EXPECT_EQ(counts.won[1], 77904);
  EXPECT_EQ(counts.positions.size(), 5478);
  // Exactly these positions can be restored.
  size_t restored = 0;
  for (uint64_t first = 0; first < 512; ++first) {
    for (uint64_t second = 0; second < 512; ++second) {
      const auto position = TicTacToe::FromStones(first, second);
      const bool reached = counts.positions.count({first, second}) > 0;
      // A board on which both have won is refused unless the last move completed both lines.
      EXPECT_EQ(position.has_value(), reached) << first << " " << second;
      restored += position.has_value();
    }
  }
  EXPECT_EQ(restored, 5478);
}

// Plain minimax without the table.
int Minimax(const TicTacToe& position) {
  if (position.HasWon(1 - position.to_move())) return -1;
  if (position.over()) return 0;
  int best = -1;
  for (int move = 0; move < TicTacToe::kMoves; ++move) {
    if (!position.CanPlay(move)) continue;
    TicTacToe next = position;
    next.Play(move);
    best = std::max(best, -Minimax(next));
  }
  return best;
}

TEST(TicTacToeSolutionTest, ValuesAreThoseOfMinimax) {
  EXPECT_EQ(TicTacToeValue(TicTacToe()), 0);
  EXPECT_EQ(TicTacToeBestMoves(TicTacToe()), 0777u) << "all first moves draw";
  Counts counts;
  TicTacToe corner;
  corner.Play(0);
  EXPECT_EQ(TicTacToeBestMoves(corner), 1u << 4) << "only the middle answers a corner";
  CountAll(corner, &counts);
  for (const auto& [first, second] : counts.positions) {
    const TicTacToe position = *TicTacToe::FromStones(first, second);
    EXPECT_EQ(TicTacToeValue(position), Minimax(position)) << first << " " << second;
  }
}

// The position of a policy's observation.
TicTacToe PositionOf(absl::Span<const float> board) {
  uint64_t own = 0;
  uint64_t other = 0;
  for (int cell = 0; cell < 9; ++cell) {
    if (board[static_cast<size_t>(cell)] == 1) own |= uint64_t{1} << cell;
    if (board[static_cast<size_t>(9 + cell)] == 1) other |= uint64_t{1} << cell;
  }
  const bool first = __builtin_popcountll(own) == __builtin_popcountll(other);
  return *TicTacToe::FromStones(first ? own : other, first ? other : own);
}

TEST(ExhaustivePlayTest, ThePerfectPlayerNeverLoses) {
  for (const int side : {0, 1}) {
    // The player that chooses the lowest of the best moves, and players that choose others.
    for (const uint64_t pick : {0, 1, 2, 3}) {
      const auto policy = [pick](absl::Span<const float> board,
                                 absl::Span<const uint8_t> mask) -> absl::StatusOr<int64_t> {
        EXPECT_EQ(mask[9], 0) << "it is this side's turn";
        EXPECT_EQ(board[18], 1);
        const uint32_t best = TicTacToeBestMoves(PositionOf(board));
        return MoveOf(best, pick % static_cast<uint64_t>(__builtin_popcount(best)));
      };
      DING_ASSERT_OK_AND_ASSIGN(const AllReplies result, PlayAllReplies<TicTacToe>(policy, side));
      EXPECT_EQ(result.lost, 0) << result.first_loss;
      EXPECT_GT(result.won, 0);
      EXPECT_GT(result.drawn, 0);
    }
  }
}

absl::StatusOr<int64_t> LowestLegal(absl::Span<const float> /*board*/,
                                    absl::Span<const uint8_t> mask) {
  int64_t move = 0;
  while (mask[static_cast<size_t>(move)] == 0) ++move;
  return move;
}

TEST(ExhaustivePlayTest, FindsTheGamesThatAWeakPolicyLoses) {
  DING_ASSERT_OK_AND_ASSIGN(const AllReplies result, PlayAllReplies<TicTacToe>(LowestLegal, 1));
  EXPECT_GT(result.lost, 0);
  // Side 0 takes the diagonal while the policy fills the upper row.
  EXPECT_THAT(result.first_loss, testing::StartsWith("0 1 "));
}

TEST(ExhaustivePlayTest, AnIllegalActionIsNamedWithItsGame) {
  const auto policy = [](absl::Span<const float>, absl::Span<const uint8_t>) { return 4; };
  EXPECT_THAT(PlayAllReplies<TicTacToe>(policy, 0),
              IsInvalid("plays 4 after the moves [4 0], which is not legal"));
}

TEST(PerfectTicTacToePlayerTest, PlaysEveryBestMoveAndNoOtherMove) {
  const PerfectTicTacToePlayer player;
  Rng rng(7, "test");
  std::set<int> moves;
  for (int i = 0; i < 200; ++i) moves.insert(player.Choose(TicTacToe(), &rng));
  EXPECT_EQ(moves.size(), 9);
}

}  // namespace
}  // namespace ding
