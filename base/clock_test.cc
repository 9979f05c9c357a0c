#include "ding_worker/base/clock.h"

#include "absl/time/clock.h"
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

}  // namespace
}  // namespace ding
