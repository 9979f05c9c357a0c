#include "ding_worker/policy/rate_average.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/policy/adam.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

Adam WithRate(double lr) {
  AdamOptions options;
  options.lr = lr;
  return *Adam::Create(options, 1);
}

TEST(RateAverageTest, ReadsAndSetsTheRatesOfTheOptimizersThatExist) {
  Adam first = WithRate(0.5);
  Adam second = WithRate(0.25);
  Adam* const optimizers[] = {&first, nullptr, &second};
  RateAverage average;
  const absl::Span<float> rates = average.Read(optimizers);
  EXPECT_THAT(rates, testing::ElementsAre(0.5f, 0.25f));
  rates[0] = 0.125f;
  rates[1] = 0.75f;
  ASSERT_THAT(average.Apply(optimizers), IsOk());
  EXPECT_EQ(first.lr(), 0.125);
  EXPECT_EQ(second.lr(), 0.75);
  rates[1] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(average.Apply(optimizers), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ding
