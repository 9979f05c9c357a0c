#include "ding_worker/base/cpu.h"

#include <limits>
#include <vector>

#include "ding_worker/base/finite.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(InstructionSetTest, BaselineIsTheFirstAndTheBestIsTheLast) {
  const auto sets = SupportedInstructionSets();
  ASSERT_FALSE(sets.empty());
  EXPECT_EQ(sets.front(), InstructionSet::kBaseline);
  EXPECT_EQ(sets.back(), BestInstructionSet());
  EXPECT_STREQ(InstructionSetName(InstructionSet::kAvx2), "avx2");
}

#if defined(__x86_64__) || defined(__aarch64__)
// The operands are volatile so that the arithmetic happens here and not in the compiler.
float HalfOfSmallestNormal() {
  volatile float smallest = std::numeric_limits<float>::min();
  volatile float half = 0.5f;
  return smallest * half;
}

bool IsFlushed() { return HalfOfSmallestNormal() == 0; }

TEST(ScopedFlushDenormalsTest, FlushesWhileItLivesAndNests) {
  EXPECT_FALSE(IsFlushed());
  {
    ScopedFlushDenormals outer;
    EXPECT_TRUE(IsFlushed());
    {
      ScopedFlushDenormals inner;
      EXPECT_TRUE(IsFlushed());
    }
    EXPECT_TRUE(IsFlushed());
  }
  EXPECT_FALSE(IsFlushed());
}
#endif

using Limits = std::numeric_limits<float>;

const std::vector<float>& NonFinite() {
  static const auto* const values =
      new std::vector<float>{Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(),
                             Limits::infinity(), -Limits::infinity()};
  return *values;
}

TEST(Finite, EveryFiniteValuePasses) {
  EXPECT_TRUE(AllFinite({}));
  EXPECT_TRUE(AllFinite({0.0f, -0.0f, Limits::max(), Limits::lowest(), Limits::denorm_min()}));
  EXPECT_EQ(FindNonFinite({1, 2, 3}), -1);
}

TEST(Finite, FindsNanAndInfinityWhereverTheyAre) {
  for (const float bad : NonFinite()) {
    for (const size_t size : {1, 4, 8, 9, 37, 100}) {
      for (size_t at = 0; at < size; ++at) {
        std::vector<float> values(size, 1.5f);
        values[at] = bad;
        EXPECT_FALSE(AllFinite(values)) << bad << " at " << at << " of " << size;
        EXPECT_EQ(FindNonFinite(values), static_cast<int64_t>(at)) << bad;
      }
    }
  }
}

// Runs with every instruction set that this processor has.
class CarryTest : public testing::TestWithParam<InstructionSet> {};

INSTANTIATE_TEST_SUITE_P(All, CarryTest, testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) { return InstructionSetName(info.param); });

TEST_P(CarryTest, ChecksEveryValueAndNoneBeyondTheEnd) {
  const auto carry = internal_finite::CarryFunctionFor(GetParam());
  for (const float bad : NonFinite()) {
    for (size_t size = 0; size <= 70; ++size) {
      std::vector<float> values(size + 1, Limits::lowest());
      values[size] = bad;
      EXPECT_EQ(carry(values.data(), size), 0u) << bad << " after " << size << " values";
      for (size_t at = 0; at < size; ++at) {
        const float kept = values[at];
        values[at] = bad;
        EXPECT_NE(carry(values.data(), size), 0u) << bad << " at " << at << " of " << size;
        values[at] = kept;
      }
    }
  }
}

}  // namespace
}  // namespace ding
