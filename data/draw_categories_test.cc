#include <array>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

TEST(DrawCategoriesTest, IsUniformOverTheCategoriesOfEachElement) {
  const FieldSpec field = MultiDiscrete("action", {2, 3});
  Rng rng(1, "test");
  std::array<int, 6> count{};
  for (int i = 0; i < 6000; ++i) {
    std::array<int64_t, 2> row;
    ASSERT_THAT(DrawCategories(field, {}, &rng, absl::MakeSpan(row)), IsOk());
    ++count.at(static_cast<size_t>(3 * row[0] + row[1]));
  }
  // The standard deviation of Binomial(6000, 1/6) is 29; five of these are allowed.
  for (const int n : count) EXPECT_NEAR(n, 1000, 145);
}

TEST(DrawCategoriesTest, IsUniformOverTheAllowedCategories) {
  const FieldSpec field = MultiDiscrete("action", {2, 5});
  const std::vector<uint8_t> mask = {0, 1, 1, 0, 0, 1, 1};
  Rng rng(2, "test");
  std::array<int, 5> count{};
  for (int i = 0; i < 3000; ++i) {
    std::array<int64_t, 2> row;
    ASSERT_THAT(DrawCategories(field, mask, &rng, absl::MakeSpan(row)), IsOk());
    EXPECT_EQ(row[0], 1);
    ++count.at(static_cast<size_t>(row[1]));
  }
  EXPECT_EQ(count[1] + count[2], 0);
  for (const int i : {0, 3, 4}) EXPECT_NEAR(count.at(static_cast<size_t>(i)), 1000, 130) << i;
}

TEST(DrawCategoriesTest, NamesAnElementWithoutALegalCategory) {
  Rng rng(3, "test");
  std::array<int64_t, 2> row;
  EXPECT_THAT(
      DrawCategories(MultiDiscrete("action", {2, 2}), {1, 1, 0, 0}, &rng, absl::MakeSpan(row)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("forbids all 2 categories of 'action' element 1")));
}

}  // namespace
}  // namespace ding
