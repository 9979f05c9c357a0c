#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

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
