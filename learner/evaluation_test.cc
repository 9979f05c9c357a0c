#include "ding_worker/learner/evaluation.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(EstimateReturnTest, HasTheStandardErrorOfTheMean) {
  const std::vector<double> returns = {1, 2, 3, 4};
  const ReturnEstimate estimate = EstimateReturn(returns, 2.5);
  EXPECT_EQ(estimate.episodes, 4);
  EXPECT_EQ(estimate.mean, 2.5);
  // The variance is (2.25 + 0.25 + 0.25 + 2.25) / 3.
  EXPECT_DOUBLE_EQ(estimate.standard_error, std::sqrt(5.0 / 3 / 4));
  EXPECT_DOUBLE_EQ(estimate.lower_bound(), 2.5 - std::sqrt(5.0 / 3 / 4));
}

TEST(EstimateReturnTest, EqualReturnsHaveNoError) {
  EXPECT_EQ(EstimateReturn(std::vector<double>(100, 200.0), 200).lower_bound(), 200);
}

TEST(EstimateReturnTest, AnotherScoreHasNoKnownError) {
  const ReturnEstimate estimate = EstimateReturn(std::vector<double>{0, 1}, 0.9);
  EXPECT_EQ(estimate.mean, 0.9);
  EXPECT_EQ(estimate.standard_error, 0);
}

TEST(EstimateReturnDeathTest, NeedsTwoReturns) {
  EXPECT_DEATH(EstimateReturn(std::vector<double>{1}, 1), "a deviation of 1 returns");
}

}  // namespace
}  // namespace ding
