#include "ding_worker/data/running_normalizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kWidth = 3;

std::vector<float> RandomRows(int64_t rows, uint64_t seed) {
  Rng rng(seed, "running_normalizer_test");
  std::vector<float> values;
  for (int64_t i = 0; i < rows * kWidth; ++i) {
    values.push_back(
        static_cast<float>(1000.0 * static_cast<double>(i % kWidth) + rng.Uniform(-1, 3)));
  }
  return values;
}

TEST(RunningNormalizer, MergesBlocksOfAnySize) {
  const std::vector<float> values = RandomRows(100, 1);
  const absl::Span<const float> all(values);
  for (const int64_t block : {1, 7, 100}) {
    RunningNormalizer normalizer(kWidth, 10);
    for (int64_t row = 0; row < 100; row += block) {
      const int64_t rows = std::min<int64_t>(block, 100 - row);
      normalizer.Update(
          all.subspan(static_cast<size_t>(row * kWidth), static_cast<size_t>(rows * kWidth)));
    }
    EXPECT_EQ(normalizer.count(), 100);
    for (int64_t column = 0; column < kWidth; ++column) {
      double mean = 0, variance = 0;
      for (int64_t row = 0; row < 100; ++row) mean += values[row * kWidth + column] / 100.0;
      for (int64_t row = 0; row < 100; ++row) {
        variance += std::pow(values[row * kWidth + column] - mean, 2) / 100;
      }
      EXPECT_NEAR(normalizer.mean()[column], mean, 1e-9) << block;
      EXPECT_NEAR(normalizer.Variance(column), variance, 1e-9) << block;
    }
  }
}

TEST(RunningNormalizer, NormalizesAndClips) {
  RunningNormalizer normalizer(kWidth, 2);
  std::vector<float> values = {0.5f, -3, 9};
  normalizer.Normalize(values, absl::MakeSpan(values));
  EXPECT_THAT(values, testing::ElementsAre(0.5f, -2, 2)) << "before the first row";
  normalizer.Update({1, 10, 5, 3, 20, 5});
  values = {3, 15, 5};
  normalizer.Normalize(values, absl::MakeSpan(values));
  EXPECT_THAT(values, testing::ElementsAre(testing::FloatNear(1, 1e-5), 0, 0))
      << "the last column is constant";
  values = {100, 15, -100};
  normalizer.Normalize(values, absl::MakeSpan(values));
  EXPECT_THAT(values, testing::ElementsAre(2, 0, -2));
}

TEST(RunningNormalizer, ContinuesFromItsSavedState) {
  RunningNormalizer straight(kWidth, 5);
  RunningNormalizer resumed(kWidth, 5);
  straight.Update(RandomRows(33, 2));
  StateDict state;
  ASSERT_THAT(straight.SaveState(&state), IsOk());
  ASSERT_THAT(resumed.LoadState(&state), IsOk());
  straight.Update(RandomRows(20, 3));
  resumed.Update(RandomRows(20, 3));
  const std::vector<float> values = RandomRows(9, 4);
  std::vector<float> a(values.size()), b(values.size());
  straight.Normalize(values, absl::MakeSpan(a));
  resumed.Normalize(values, absl::MakeSpan(b));
  EXPECT_EQ(a, b);
}

TEST(RunningNormalizer, RefusesImpossibleStatistics) {
  RunningNormalizer normalizer(kWidth, 5);
  StateDict narrow;
  ASSERT_THAT(RunningNormalizer(kWidth - 1, 5).SaveState(&narrow), IsOk());
  EXPECT_THAT(normalizer.LoadState(&narrow), IsInvalid());
  StateDict negative;
  ASSERT_THAT(negative.WriteInt("count", 1), IsOk());
  ASSERT_THAT(negative.WriteSpan<double>("mean", {0, 0, 0}), IsOk());
  ASSERT_THAT(negative.WriteSpan<double>("sum_of_squares", {0, -1, 0}), IsOk());
  EXPECT_THAT(normalizer.LoadState(&negative), IsInvalid());
  EXPECT_EQ(normalizer.count(), 0);
}

constexpr double kGamma = 0.5;

// Returns a segment.
Segment Rows(int64_t stream, int64_t begin, int64_t length, SegmentEnd end) {
  return {stream, 0, begin, length, end};
}

double Scaled(const std::vector<double>& returns, double reward) {
  double mean = 0, variance = 0;
  for (const double value : returns) mean += value / static_cast<double>(returns.size());
  for (const double value : returns) {
    variance += (value - mean) * (value - mean) / static_cast<double>(returns.size());
  }
  return reward / std::sqrt(variance);
}

TEST(RewardScaler, ReturnsContinueInAStreamAndEndWithTheEpisode) {
  RewardScaler scaler(kGamma);
  std::vector<float> reward = {2, 4, 6, 8};
  scaler.Scale({Rows(0, 0, 2, SegmentEnd::kCut), Rows(1, 2, 1, SegmentEnd::kTerminated),
                Rows(1, 3, 1, SegmentEnd::kTruncated)},
               absl::MakeSpan(reward));
  const std::vector<double> first = {2, 5, 6, 8};
  EXPECT_NEAR(reward[0], Scaled(first, 2), 1e-6);
  EXPECT_NEAR(reward[3], Scaled(first, 8), 1e-6);
  reward = {1, 1};
  scaler.Scale({Rows(0, 0, 1, SegmentEnd::kCut), Rows(1, 1, 1, SegmentEnd::kCut)},
               absl::MakeSpan(reward));
  EXPECT_NEAR(reward[0], Scaled({2, 5, 6, 8, 1 + kGamma * 5, 1}, 1), 1e-6)
      << "stream 0 went on, stream 1 began anew";
}

TEST(RewardScaler, ContinuesFromItsSavedState) {
  RewardScaler straight(kGamma);
  RewardScaler resumed(kGamma);
  std::vector<float> reward = {2, 4, -6};
  straight.Scale({Rows(7, 0, 3, SegmentEnd::kCut)}, absl::MakeSpan(reward));
  StateDict state;
  ASSERT_THAT(straight.SaveState(&state), IsOk());
  ASSERT_THAT(resumed.LoadState(&state), IsOk());
  std::vector<float> a = {1, 2}, b = {1, 2};
  straight.Scale({Rows(7, 0, 2, SegmentEnd::kCut)}, absl::MakeSpan(a));
  resumed.Scale({Rows(7, 0, 2, SegmentEnd::kCut)}, absl::MakeSpan(b));
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace ding
