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

using testing::SizeIs;

constexpr TaskGameResult kResults[] = {TaskGameResult::WINS, TaskGameResult::DRAWS,
                                       TaskGameResult::LOSSES};

TEST(BattleSharedPayoffTest, DefaultsAreThoseOfTheOriginal) {
  PayoffConfig config;
  EXPECT_EQ(config.decay(), 0.99);
  EXPECT_EQ(config.min_win_rate_games(), 8);
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

// The options of TrueSkill's own examples.
LeagueMetricConfig Usual() {
  LeagueMetricConfig config;
  config.set_mu(25);
  config.set_tau(25.0 / 300);
  config.set_draw_probability(0.1);
  return config;
}

Rating RatingOf(double mu, double sigma) {
  Rating rating;
  rating.set_mu(mu);
  rating.set_sigma(sigma);
  return rating;
}

TEST(LeagueMetricTest, DefaultsAreThoseOfTheOriginal) {
  LeagueMetricConfig config;
  EXPECT_EQ(config.mu(), 0);
  EXPECT_EQ(config.sigma(), 25.0 / 3);
  EXPECT_EQ(config.beta(), 25.0 / 6);
  EXPECT_EQ(config.tau(), 0);
  EXPECT_EQ(config.draw_probability(), 0.02);
}

// The published numbers of two new players.
TEST(LeagueMetricTest, AWinAndADrawOfTwoNewPlayers) {
  const LeagueMetric metric(Usual());
  Rating home = metric.NewRating();
  Rating away = metric.NewRating();
  metric.Rate(TaskGameResult::WINS, &home, &away);
  EXPECT_NEAR(home.mu(), 29.396, 0.001);
  EXPECT_NEAR(away.mu(), 20.604, 0.001);
  EXPECT_NEAR(home.sigma(), 7.171, 0.001);
  EXPECT_NEAR(away.sigma(), 7.171, 0.001);
  home = away = metric.NewRating();
  metric.Rate(TaskGameResult::DRAWS, &home, &away);
  EXPECT_NEAR(home.mu(), 25, 1e-9);
  EXPECT_NEAR(home.sigma(), 6.458, 0.001);
}

// The moments of the posterior, by summing over a grid of skills and the exact likelihood.
TEST(LeagueMetricTest, ComesCloseToThePosterior) {
  LeagueMetricConfig config;
  config.set_draw_probability(0.2);
  const LeagueMetric metric(config);
  // P(|difference of plays| < margin) is 0.2 for equal skills: an error function of margin/(2
  // beta).
  double margin = 0;
  while (std::erf(margin / (2 * config.beta())) < 0.2) margin += 1e-4;
  const auto probability = [](double x) { return std::erfc(-x / M_SQRT2) / 2; };
  for (const double lead : {-12.0, -3.0, 0.0, 5.0, 15.0}) {
    for (const TaskGameResult result :
         {TaskGameResult::WINS, TaskGameResult::DRAWS, TaskGameResult::LOSSES}) {
      Rating home = RatingOf(lead, 6);
      Rating away = RatingOf(0, 3);
      double sum = 0, mean_h = 0, square_h = 0, mean_a = 0, square_a = 0;
      for (double h = lead - 36; h <= lead + 36; h += 0.2) {
        for (double a = -18; a <= 18; a += 0.2) {
          const double spread = M_SQRT2 * config.beta();
          const double wins = probability((h - a - margin) / spread);
          const double loses = probability((a - h - margin) / spread);
          const double likelihood = result == TaskGameResult::WINS     ? wins
                                    : result == TaskGameResult::LOSSES ? loses
                                                                       : 1 - wins - loses;
          const double weight = likelihood * std::exp(-(h - lead) * (h - lead) / 72 - a * a / 18);
          sum += weight;
          mean_h += weight * h;
          square_h += weight * h * h;
          mean_a += weight * a;
          square_a += weight * a * a;
        }
      }
      metric.Rate(result, &home, &away);
      EXPECT_NEAR(home.mu(), mean_h / sum, 0.01);
      EXPECT_NEAR(away.mu(), mean_a / sum, 0.01);
      EXPECT_NEAR(home.sigma(), std::sqrt(square_h / sum - std::pow(mean_h / sum, 2)), 0.01);
      EXPECT_NEAR(away.sigma(), std::sqrt(square_a / sum - std::pow(mean_a / sum, 2)), 0.01);
    }
  }
}

TEST(LeagueMetricTest, StaysFiniteAfterExtremeGames) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "rating_test");
    const LeagueMetric metric({});
    Rating home = RatingOf(rng.Uniform(-1e4, 1e4), rng.Uniform(1e-6, 100));
    Rating away = RatingOf(rng.Uniform(-1e4, 1e4), rng.Uniform(1e-6, 100));
    for (int i = 0; i < 1000; ++i) {
      metric.Rate(static_cast<TaskGameResult>(rng.UniformInt(3)), &home, &away);
      ASSERT_TRUE(std::isfinite(home.mu()) && std::isfinite(away.mu()));
      ASSERT_GT(home.sigma(), 0);
      ASSERT_GT(away.sigma(), 0);
    }
  }
}

}  // namespace
}  // namespace ding
