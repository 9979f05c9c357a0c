#include "ding_worker/base/checked_size.h"

#include <limits>

#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(CheckedSize, SumsAndProducts_BeyondTheType_AreNull) {
  EXPECT_EQ(CheckedSum(kMax, -1), kMax - 1);
  EXPECT_EQ(CheckedSum(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedSum(kMin, -1), std::nullopt);
  EXPECT_EQ(CheckedProduct(kMax, 1), kMax);
  EXPECT_EQ(CheckedProduct(kMax, 2), std::nullopt);
  EXPECT_EQ(CheckedProduct(kMin, -1), std::nullopt);
}

TEST(CheckedSize, IsRange_AtTheEndsOfTheType) {
  EXPECT_TRUE(IsRange(0, 0, 0));
  EXPECT_TRUE(IsRange(3, 0, 3));
  EXPECT_TRUE(IsRange(1, 2, 3));
  EXPECT_TRUE(IsRange(0, kMax, kMax));
  EXPECT_FALSE(IsRange(2, 2, 3));
  EXPECT_FALSE(IsRange(4, 0, 3));
  EXPECT_FALSE(IsRange(-1, 1, 3));
  EXPECT_FALSE(IsRange(1, -1, 3));
  EXPECT_FALSE(IsRange(kMax, kMax, kMax));
  EXPECT_FALSE(IsRange(kMin, kMin, 3));
}

}  // namespace
}  // namespace ding
