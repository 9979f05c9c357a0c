#include "ding_worker/data/named_values.h"

#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(NamedValues, KeepTheOrderOfFirstInsertion) {
  NamedValues values = {{"eps", 0.5}, {"alpha", 1}};
  values.Set("seed", 3);
  values.Set("eps", 0.25);
  const std::vector<NamedValues::Entry> entries(values.begin(), values.end());
  EXPECT_THAT(entries, ElementsAre(Pair("eps", 0.25), Pair("alpha", 1), Pair("seed", 3)));
  EXPECT_EQ(values.size(), 3u);
}

TEST(NamedValues, AMissingValueIsNullopt) {
  NamedValues values = {{"eps", 0}};
  EXPECT_EQ(values.Get("eps"), 0);
  EXPECT_EQ(values.Get("alpha"), std::nullopt);
  EXPECT_EQ(values.GetOr("alpha", 7), 7);
  EXPECT_EQ(values.GetOr("eps", 7), 0);
  values.Clear();
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(values.Get("eps"), std::nullopt);
}

}  // namespace
}  // namespace ding
