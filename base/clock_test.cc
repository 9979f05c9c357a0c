#include "ding_worker/base/clock.h"

#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"
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

}  // namespace
}  // namespace ding
