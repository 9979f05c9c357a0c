#include "ding_worker/coordinator/league/payoff.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ding_worker/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr GameResult kResults[] = {GameResult::kWin, GameResult::kDraw, GameResult::kLoss};

TEST(BattleSharedPayoffTest, DefaultsAreThoseOfTheOriginal) {
  const BattleSharedPayoff::Options options;
  EXPECT_EQ(options.decay, 0.99);
  EXPECT_EQ(options.min_win_rate_games, 8);
  EXPECT_THAT(BattleSharedPayoff::Problems(options), IsEmpty());
  EXPECT_THAT(BattleSharedPayoff::Problems({0, 0}),
              ElementsAre(HasSubstr("payoff.decay is 0, expected above 0"),
                          HasSubstr("payoff.min_win_rate_games is 0, expected at least 1")));
}

TEST(BattleSharedPayoffTest, AWinRateNeedsEightGames) {
  BattleSharedPayoff payoff({/*decay=*/1, 8});
  EXPECT_EQ(payoff.WinRate("a", "b"), 0.5);
  payoff.Update("a", "b", std::vector<GameResult>(7, GameResult::kWin));
  EXPECT_EQ(payoff.WinRate("a", "b"), 0.5);
  payoff.Update("a", "b", {GameResult::kDraw});
  EXPECT_EQ(payoff.WinRate("a", "b"), 7.5 / 8);
  EXPECT_EQ(payoff.WinRate("b", "a"), 0.5 / 8);
}

TEST(BattleSharedPayoffTest, SelfPlayCountsAsADraw) {
  BattleSharedPayoff payoff({});
  for (int i = 0; i < 20; ++i) {
    payoff.Update("a", "a", {GameResult::kWin, GameResult::kLoss, GameResult::kWin});
  }
  EXPECT_EQ(payoff.Record("a", "a").draws, 20) << "one a task, without decay";
  EXPECT_EQ(payoff.Record("a", "a").games(), 20);
  EXPECT_EQ(payoff.WinRate("a", "a"), 0.5);
}

// Each game counts decay^(number of later games of the pair), from whichever side it is told.
TEST(BattleSharedPayoffTest, OlderGamesCountLess) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "payoff_test");
    BattleSharedPayoff payoff({});
    std::vector<GameResult> played;  // of "a"
    for (int task = 0; task < 30; ++task) {
      std::vector<GameResult> results(rng.UniformInt(4));
      const bool a_is_home = rng.UniformInt(2) == 0;
      for (GameResult& result : results) {
        result = kResults[rng.UniformInt(3)];
        played.push_back(a_is_home ? result : Reversed(result));
      }
      payoff.Update(a_is_home ? "a" : "b", a_is_home ? "b" : "a", results);
      payoff.Update("a", "c", {GameResult::kWin});
    }
    BattleRecord expected;
    for (size_t i = 0; i < played.size(); ++i) {
      const double weight = std::pow(0.99, static_cast<double>(played.size() - 1 - i));
      if (played[i] == GameResult::kWin) expected.wins += weight;
      if (played[i] == GameResult::kDraw) expected.draws += weight;
      if (played[i] == GameResult::kLoss) expected.losses += weight;
    }
    const BattleRecord of_a = payoff.Record("a", "b");
    const BattleRecord of_b = payoff.Record("b", "a");
    EXPECT_NEAR(of_a.wins, expected.wins, 1e-9);
    EXPECT_NEAR(of_a.draws, expected.draws, 1e-9);
    EXPECT_NEAR(of_a.losses, expected.losses, 1e-9);
    EXPECT_EQ(of_b.wins, of_a.losses);
    EXPECT_EQ(of_b.losses, of_a.wins);
    EXPECT_NEAR(payoff.WinRate("a", "b") + payoff.WinRate("b", "a"), 1, 1e-12);
  }
}

TEST(BattleSharedPayoffTest, APlayerWhoLeavesIsForgotten) {
  BattleSharedPayoff payoff({});
  payoff.Update("a", "b", {GameResult::kWin});
  payoff.Update("c", "a", {GameResult::kWin});
  payoff.Update("b", "c", {GameResult::kWin});
  payoff.Forget("b");
  EXPECT_THAT(payoff.records(), SizeIs(1));
  EXPECT_EQ(payoff.Record("a", "c").losses, 1);
}

}  // namespace
}  // namespace ding
