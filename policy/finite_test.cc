#include "ding_worker/policy/finite.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace ding {
namespace {

using Limits = std::numeric_limits<float>;

TEST(Finite, EveryFiniteValuePasses) {
  EXPECT_TRUE(AllFinite({}));
  EXPECT_TRUE(AllFinite({0.0f, -0.0f, Limits::max(), Limits::lowest(), Limits::denorm_min()}));
  EXPECT_EQ(FindNonFinite({1, 2, 3}), -1);
}

TEST(Finite, FindsNanAndInfinityWhereverTheyAre) {
  for (const float bad : {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(),
                          Limits::infinity(), -Limits::infinity()}) {
    for (size_t at = 0; at < 37; ++at) {
      std::vector<float> values(37, 1.5f);
      values[at] = bad;
      EXPECT_FALSE(AllFinite(values)) << bad << " at " << at;
      EXPECT_EQ(FindNonFinite(values), static_cast<int64_t>(at)) << bad;
    }
  }
}

}  // namespace
}  // namespace ding
