#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/metrics/file_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(HistogramTest, CountsValuesUpToEachLimit) {
  const HistogramSummary summary = Summarize({0, 1, 1, 2, 3, 4}, 4);
  EXPECT_THAT(summary.limits, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(summary.counts, ElementsAre(3, 1, 1, 1));
  EXPECT_EQ(summary.count, 6);
  EXPECT_EQ(summary.min, 0);
  EXPECT_EQ(summary.max, 4);
  EXPECT_EQ(summary.sum, 11);
  EXPECT_EQ(summary.sum_squares, 31);
  EXPECT_DOUBLE_EQ(summary.Mean(), 11.0 / 6);
  EXPECT_DOUBLE_EQ(summary.StandardDeviation(), std::sqrt(31.0 / 6 - 121.0 / 36));
}

TEST(HistogramTest, EqualValuesFillOneBucket) {
  const HistogramSummary summary = Summarize({0.1f, 0.1f, 0.1f});
  EXPECT_THAT(summary.limits, ElementsAre(0.1f));
  EXPECT_THAT(summary.counts, ElementsAre(3));
  EXPECT_NEAR(summary.StandardDeviation(), 0, 1e-8);
}

TEST(HistogramTest, CountsNonFiniteValuesSeparately) {
  const HistogramSummary summary = Summarize({kNan, 1, kInfinity, 3, -kInfinity}, 2);
  EXPECT_EQ(summary.non_finite_count, 3);
  EXPECT_EQ(summary.count, 2);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 3);
  EXPECT_THAT(summary.counts, ElementsAre(1, 1));
}

TEST(HistogramTest, HasNoBucketsWithoutFiniteValues) {
  const HistogramSummary summary = Summarize({kNan, kInfinity});
  EXPECT_EQ(summary.count, 0);
  EXPECT_EQ(summary.min, 0);
  EXPECT_EQ(summary.Mean(), 0);
  EXPECT_EQ(summary.StandardDeviation(), 0);
  EXPECT_THAT(summary.limits, IsEmpty());
  EXPECT_THAT(summary.counts, IsEmpty());
}

TEST(HistogramTest, EveryValueFallsIntoABucketAtAnyScale) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float scale : {1e-44f, 1e-3f, 1.0f, kLargest}) {
    SCOPED_TRACE(scale);
    Rng rng(/*seed=*/1, "histogram_test");
    std::vector<float> values;
    for (int i = 0; i < 1000; ++i) {
      values.push_back(scale * static_cast<float>(rng.Uniform(-1, 1)));
    }
    const HistogramSummary summary = Summarize(values);
    EXPECT_EQ(std::accumulate(summary.counts.begin(), summary.counts.end(), int64_t{0}), 1000);
    EXPECT_EQ(summary.limits.back(), summary.max);
    EXPECT_TRUE(std::is_sorted(summary.limits.begin(), summary.limits.end()));
  }
}

}  // namespace
}  // namespace ding
