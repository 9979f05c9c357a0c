#include "ding_worker/base/clock.h"

#include <cstdint>
#include <optional>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/rate_bound.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(RealClock, IsMonotonicAndTellsTheTime) {
  Clock* const clock = Clock::Real();
  int64_t previous = clock->MonotonicNanos();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = clock->MonotonicNanos();
    ASSERT_GE(now, previous);
    previous = now;
  }
  EXPECT_LT(absl::AbsDuration(clock->Now() - absl::Now()), absl::Minutes(1));
  EXPECT_EQ(clock, Clock::Real());
}

TEST(SimulatedClock, MovesOnlyWhenTold) {
  SimulatedClock clock(absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.MonotonicNanos(), 0);
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now(), absl::FromUnixMillis(101500));
  EXPECT_EQ(clock.MonotonicNanos(), 1500000000);
}

// The original's timer kept its start on the class, so that an inner timer reset the outer one.
TEST(Timer, NestedTimersAreIndependent) {
  SimulatedClock clock;
  const Timer outer(&clock);
  clock.Advance(absl::Seconds(2));
  const Timer inner(&clock);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(outer.Elapsed(), absl::Seconds(5));
  EXPECT_EQ(inner.Elapsed(), absl::Seconds(3));
  EXPECT_DOUBLE_EQ(outer.Seconds(), 5);
}

TEST(DeadlineTest, PassesAfterItsTimeout) {
  const Deadline deadline = Deadline::After(absl::Milliseconds(20));
  while (!deadline.Passed()) absl::SleepFor(deadline.Left());
  EXPECT_EQ(deadline.Left(), absl::ZeroDuration());
}

TEST(DeadlineTest, HasPassedAfterATimeoutOfZeroOrLess) {
  EXPECT_TRUE(Deadline::After(absl::ZeroDuration()).Passed());
  EXPECT_TRUE(Deadline::After(-absl::InfiniteDuration()).Passed());
}

TEST(DeadlineTest, NeverPassesAfterAnInfiniteTimeout) {
  const Deadline never = Deadline::After(absl::InfiniteDuration());
  EXPECT_FALSE(never.Passed());
  EXPECT_GT(never.Left(), absl::Hours(24 * 300));
}

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
