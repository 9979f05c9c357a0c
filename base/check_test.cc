#include "ding_worker/base/check.h"

#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(Check, DoesNothingWhenTrueAndDoesNotEvaluateTheMessage) {
  int evaluated = 0;
  DING_CHECK(1 + 1 == 2) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST(Check, IsOneStatement) {
  bool reached_else = false;
  if (false)
    DING_CHECK(false) << "not reached";
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

TEST(CheckDeathTest, PrintsPlaceConditionAndMessage) {
  const int row = 7;
  EXPECT_DEATH(DING_CHECK(row < 5) << "row " << row << " of 5",
               "check_test.cc:[0-9]+: check failed: row < 5 row 7 of 5");
}

}  // namespace
}  // namespace ding
