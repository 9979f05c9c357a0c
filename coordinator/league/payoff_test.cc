#include "ding_worker/coordinator/league/payoff.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/league/league.pb.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TaskGameResult kResults[] = {TaskGameResult::WINS, TaskGameResult::DRAWS,
                                       TaskGameResult::LOSSES};

TEST(BattleSharedPayoffTest, DefaultsAreThoseOfTheOriginal) {
  PayoffConfig config;
  EXPECT_EQ(config.decay(), 0.99);
  EXPECT_EQ(config.min_win_rate_games(), 8);
  EXPECT_THAT(BattleSharedPayoff::Problems(config), IsEmpty());
  config.set_decay(0);
  config.set_min_win_rate_games(0);
  EXPECT_THAT(BattleSharedPayoff::Problems(config),
              ElementsAre(HasSubstr("payoff.decay is 0, expected above 0"),
                          HasSubstr("payoff.min_win_rate_games is 0, expected at least 1")));
}

TEST(BattleSharedPayoffTest, AWinRateNeedsEightGames) {
  PayoffConfig config;
  config.set_decay(1);
  BattleSharedPayoff payoff(config);
  EXPECT_EQ(payoff.WinRate("a", "b"), 0.5);
  payoff.Update("a", "b", std::vector<TaskGameResult>(7, TaskGameResult::WINS));
  EXPECT_EQ(payoff.WinRate("a", "b"), 0.5);
  payoff.Update("a", "b", {TaskGameResult::DRAWS});
  EXPECT_EQ(payoff.WinRate("a", "b"), 7.5 / 8);
  EXPECT_EQ(payoff.WinRate("b", "a"), 0.5 / 8);
}

TEST(BattleSharedPayoffTest, SelfPlayCountsAsADraw) {
  BattleSharedPayoff payoff({});
  for (int i = 0; i < 20; ++i) {
    payoff.Update("a", "a", {TaskGameResult::WINS, TaskGameResult::LOSSES, TaskGameResult::WINS});
  }
  EXPECT_EQ(payoff.Record("a", "a").draws(), 20) << "one a task, without decay";
  EXPECT_EQ(GamesOf(payoff.Record("a", "a")), 20);
  EXPECT_EQ(payoff.WinRate("a", "a"), 0.5);
}

// Each game counts decay^(number of later games of the pair), from whichever side it is told.
TEST(BattleSharedPayoffTest, OlderGamesCountLess) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "payoff_test");
    BattleSharedPayoff payoff({});
    std::vector<TaskGameResult> played;  // of "a"
    for (int task = 0; task < 30; ++task) {
      std::vector<TaskGameResult> results(rng.UniformInt(4));
      const bool a_is_home = rng.UniformInt(2) == 0;
      for (TaskGameResult& result : results) {
        result = kResults[rng.UniformInt(3)];
        played.push_back(a_is_home ? result : kResults[2 - result]);
      }
      payoff.Update(a_is_home ? "a" : "b", a_is_home ? "b" : "a", results);
      payoff.Update("a", "c", {TaskGameResult::WINS});
    }
    double wins = 0, draws = 0, losses = 0;
    for (size_t i = 0; i < played.size(); ++i) {
      const double weight = std::pow(0.99, static_cast<double>(played.size() - 1 - i));
      if (played[i] == TaskGameResult::WINS) wins += weight;
      if (played[i] == TaskGameResult::DRAWS) draws += weight;
      if (played[i] == TaskGameResult::LOSSES) losses += weight;
    }
    const BattleRecord of_a = payoff.Record("a", "b");
    const BattleRecord of_b = payoff.Record("b", "a");
    EXPECT_NEAR(of_a.wins(), wins, 1e-9);
    EXPECT_NEAR(of_a.draws(), draws, 1e-9);
    EXPECT_NEAR(of_a.losses(), losses, 1e-9);
    EXPECT_EQ(of_b.wins(), of_a.losses());
    EXPECT_EQ(of_b.losses(), of_a.wins());
    EXPECT_NEAR(payoff.WinRate("a", "b") + payoff.WinRate("b", "a"), 1, 1e-12);
  }
}

TEST(BattleSharedPayoffTest, APlayerWhoLeavesIsForgotten) {
  BattleSharedPayoff payoff({});
  payoff.Update("a", "b", {TaskGameResult::WINS});
  payoff.Update("c", "a", {TaskGameResult::WINS});
  payoff.Update("b", "c", {TaskGameResult::WINS});
  payoff.Forget("b");
  EXPECT_THAT(payoff.records(), SizeIs(1));
  EXPECT_EQ(payoff.Record("a", "c").losses(), 1);
}

}  // namespace
}  // namespace ding
