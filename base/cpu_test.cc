#include "ding_worker/base/cpu.h"

#include <limits>

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

}  // namespace
}  // namespace ding
