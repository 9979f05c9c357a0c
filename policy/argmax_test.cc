#include "ding_worker/policy/loss/td_loss.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(Argmax, TakesTheLowestOfEqualValues) {
  EXPECT_EQ(Argmax({1, 3, 3, 2}), 1);
  EXPECT_EQ(Argmax({-1}), 0);
}

TEST(Argmax, TakesLegalValuesOnly) {
  EXPECT_EQ(Argmax({1, 3, 3}, {1, 1, 1}), 1);
  EXPECT_EQ(Argmax({1, 3, 3}, {1, 0, 1}), 2);
  EXPECT_EQ(Argmax({1, 3, 3}, {0, 0, 0}), -1);
}

}  // namespace
}  // namespace ding
