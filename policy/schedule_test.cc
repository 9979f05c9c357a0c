#include "ding_worker/policy/schedule.h"

#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(Schedule, ExpMovesFromStartTowardsEnd) {
  const Schedule schedule{ScheduleKind::kExp, 0.95, 0.1, 10000};
  EXPECT_DOUBLE_EQ(schedule.At(0), 0.95);
  EXPECT_NEAR(schedule.At(10000), 0.1 + 0.85 * 0.36787944117, 1e-10);
  EXPECT_NEAR(schedule.At(5000), 0.1 + 0.85 * 0.60653065971, 1e-10);
  EXPECT_NEAR(schedule.At(1e9), 0.1, 1e-12);
}

TEST(Schedule, LinearReachesEndAfterDecayStepsAndStaysThere) {
  const Schedule schedule{ScheduleKind::kLinear, 1.0, 0.2, 400};
  EXPECT_DOUBLE_EQ(schedule.At(0), 1.0);
  EXPECT_DOUBLE_EQ(schedule.At(100), 0.8);
  EXPECT_DOUBLE_EQ(schedule.At(400), 0.2);
  EXPECT_DOUBLE_EQ(schedule.At(4000), 0.2);
}

TEST(Schedule, MayRise) {
  EXPECT_DOUBLE_EQ((Schedule{ScheduleKind::kLinear, 0.4, 1.0, 10}).At(5), 0.7);
}

TEST(Schedule, IsTheStartBeforeTheFirstStep) {
  EXPECT_DOUBLE_EQ((Schedule{ScheduleKind::kLinear, 1, 0, 10}).At(-1), 1);
  EXPECT_DOUBLE_EQ((Schedule{ScheduleKind::kExp, 1, 0, 10}).At(-1), 1);
}

}  // namespace
}  // namespace ding
