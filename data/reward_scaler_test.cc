#include <cmath>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/running_normalizer.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

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
