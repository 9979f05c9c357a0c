#include "ding_worker/interaction/transport/rate_bound.h"

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(RateBoundTest, LetsOneThroughInEachPeriod) {
  SimulatedClock clock;
  RateBound bound(1, absl::Seconds(1), &clock);
  EXPECT_EQ(bound.Pass(), std::optional<int64_t>(0));
  EXPECT_EQ(bound.Pass(), std::nullopt);
  clock.Advance(absl::Milliseconds(999));
  EXPECT_EQ(bound.Pass(), std::nullopt);
  clock.Advance(absl::Milliseconds(1));
  EXPECT_EQ(bound.Pass(), std::optional<int64_t>(2));
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(bound.Pass(), std::optional<int64_t>(0));
}

TEST(RateBoundTest, LetsSeveralThroughInEachPeriod) {
  SimulatedClock clock;
  RateBound bound(3, absl::Seconds(1), &clock);
  for (int period = 0; period < 2; ++period) {
    EXPECT_EQ(bound.Pass(), std::optional<int64_t>(period == 0 ? 0 : 4));
    EXPECT_EQ(bound.Pass(), std::optional<int64_t>(0));
    EXPECT_EQ(bound.Pass(), std::optional<int64_t>(0));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(bound.Pass(), std::nullopt);
    clock.Advance(absl::Seconds(1));
  }
}

}  // namespace
}  // namespace ding
