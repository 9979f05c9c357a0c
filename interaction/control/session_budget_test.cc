#include "ding_worker/interaction/control/session_budget.h"

#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(SessionBudgetTest, OneSessionMayTakeTheSharedHalf) {
  SessionBudget budget(/*bytes=*/1000, /*max_sessions=*/10);
  EXPECT_TRUE(budget.Take(/*held=*/0, 500));
  EXPECT_FALSE(budget.Take(/*held=*/500, 1));
  EXPECT_EQ(budget.taken(), 500) << "bytes that were refused must not count";
  budget.Return(1);
  EXPECT_TRUE(budget.Take(/*held=*/499, 1));
}

TEST(SessionBudgetTest, EachSessionCanTakeItsShare) {
  SessionBudget budget(/*bytes=*/1000, /*max_sessions=*/10);
  EXPECT_TRUE(budget.Take(/*held=*/0, 500));
  for (int session = 0; session < 10; ++session) {
    EXPECT_TRUE(budget.Take(/*held=*/0, 30));
    EXPECT_TRUE(budget.Take(/*held=*/30, 20));
    EXPECT_FALSE(budget.Take(/*held=*/50, 1));
  }
  EXPECT_EQ(budget.taken(), budget.bytes());
}

}  // namespace
}  // namespace ding
