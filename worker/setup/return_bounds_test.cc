#include <cstdint>
#include <limits>

#include "ding_worker/env/env.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

ReturnBounds Bounds(double low, double high, int64_t steps) {
  EnvSpec env;
  env.reward_low = low;
  env.reward_high = high;
  env.max_episode_steps = steps;
  return BoundsOfReturns(env);
}

TEST(BoundsOfReturnsTest, AreThoseOfOneToAllSteps) {
  const ReturnBounds cart_pole = Bounds(1, 1, 200);
  EXPECT_EQ(cart_pole.low, 1);
  EXPECT_EQ(cart_pole.high, 200);
  const ReturnBounds mountain_car = Bounds(-1, -1, 200);
  EXPECT_EQ(mountain_car.low, -200);
  EXPECT_EQ(mountain_car.high, -1);
  const ReturnBounds game = Bounds(-1, 1, 9);
  EXPECT_EQ(game.low, -9);
  EXPECT_EQ(game.high, 9);
}

TEST(BoundsOfReturnsTest, AreOpenWhereTheEnvDoesNotSay) {
  const ReturnBounds endless = Bounds(-2, 1, 0);
  EXPECT_EQ(endless.low, -kInf);
  EXPECT_EQ(endless.high, kInf);
  const ReturnBounds penalties = Bounds(-2, -1, 0);
  EXPECT_EQ(penalties.low, -kInf);
  EXPECT_EQ(penalties.high, -1);
  const ReturnBounds any = Bounds(-kInf, kInf, 10);
  EXPECT_EQ(any.low, -kInf);
  EXPECT_EQ(any.high, kInf);
  const ReturnBounds zero = Bounds(0, 0, 0);
  EXPECT_EQ(zero.low, 0);
  EXPECT_EQ(zero.high, 0);
}

TEST(BoundsOfReturnsTest, AreThoseOfAllComponents) {
  EnvSpec env;
  env.reward_shape = {3};
  env.reward_low = -1;
  env.reward_high = 2;
  env.max_episode_steps = 10;
  EXPECT_EQ(BoundsOfReturns(env).low, -30);
  EXPECT_EQ(BoundsOfReturns(env).high, 60);
}

TEST(EitherOfTest, HoldsBoth) {
  const ReturnBounds both = EitherOf({-1, 5}, {0, kInf});
  EXPECT_EQ(both.low, -1);
  EXPECT_EQ(both.high, kInf);
}

}  // namespace
}  // namespace ding
