#include <cmath>
#include <cstdint>

#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/league/league.pb.h"
#include "ding_worker/coordinator/league/payoff.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

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
  EXPECT_THAT(LeagueMetric::Problems(config), IsEmpty());
  config.set_mu(NAN);
  config.set_sigma(0);
  config.set_beta(0);
  config.set_tau(-1);
  config.set_draw_probability(1);
  EXPECT_THAT(LeagueMetric::Problems(config), SizeIs(5));
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
