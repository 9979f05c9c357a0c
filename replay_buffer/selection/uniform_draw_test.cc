#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/replay_buffer/selection/fill_random.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(UniformDraw, IndicesWithoutReplacementAreDifferentAndInRange) {
  UniformDraw draw;
  Rng rng(1, "test");
  for (const int64_t n : {1, 2, 3, 10, 100, 1000, 1 << 30}) {
    for (const int64_t size : {1, 2, 7, 100, 1000}) {
      if (size > n) continue;
      std::vector<int64_t> out(static_cast<size_t>(size));
      draw.WithoutReplacement(n, &rng, absl::MakeSpan(out));
      EXPECT_EQ(std::set<int64_t>(out.begin(), out.end()).size(), size) << n;
      EXPECT_GE(*std::min_element(out.begin(), out.end()), 0);
      EXPECT_LT(*std::max_element(out.begin(), out.end()), n);
    }
  }
}

TEST(UniformDraw, DrawingAllIndicesGivesAPermutation) {
  UniformDraw draw;
  Rng rng(2, "test");
  std::vector<int64_t> out(500);
  draw.WithoutReplacement(500, &rng, absl::MakeSpan(out));
  std::sort(out.begin(), out.end());
  std::vector<int64_t> expected(500);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(out, expected);
}

// Chi-squared over all 20 subsets of 3 of 6: 19 degrees of freedom, above 62 once in 10^6 (Wilson
// and Hilferty 1931).
TEST(UniformDraw, EverySetIsEquallyLikely) {
  UniformDraw draw;
  Rng rng(3, "test");
  std::map<std::set<int64_t>, int> seen;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<int64_t> out(3);
    draw.WithoutReplacement(6, &rng, absl::MakeSpan(out));
    ++seen[std::set<int64_t>(out.begin(), out.end())];
  }
  ASSERT_EQ(seen.size(), 20);
  double chi_squared = 0;
  for (const auto& [set, count] : seen) {
    chi_squared += (count - kDraws / 20.0) * (count - kDraws / 20.0) / (kDraws / 20.0);
  }
  EXPECT_LT(chi_squared, 62);
}

// 3 * 2^30 does not divide 2^32: without rejection, the multiples of three would come twice as
// often as the others. Tolerances are five standard deviations, sqrt(n p (1 - p)).
TEST(UniformDraw, IsUnbiasedWhereTheRangeIsLarge) {
  UniformDraw draw;
  Rng rng(4, "test");
  constexpr int64_t kN = int64_t{3} << 30;
  std::vector<int64_t> out(100000);
  draw.WithReplacement(kN, &rng, absl::MakeSpan(out));
  std::vector<int64_t> by_remainder(3);
  for (const int64_t index : out) ++by_remainder[static_cast<size_t>(index % 3)];
  for (const int64_t count : by_remainder) EXPECT_NEAR(count, 100000 / 3.0, 5 * 149);
  const auto below = std::count_if(out.begin(), out.end(), [](int64_t i) { return i < kN / 2; });
  EXPECT_NEAR(below, 50000, 5 * 158);
}

TEST(FillRandom, GivesTheNumbersOfNext32) {
  for (const size_t used : {0, 1, 3, 4}) {
    for (const size_t size : {0, 1, 3, 4, 7, 100, 1000}) {
      SCOPED_TRACE(testing::Message() << size << " numbers after " << used);
      Rng expected(11, "fill");
      Rng filled(11, "fill");
      for (size_t i = 0; i < used; ++i) EXPECT_EQ(filled.Next32(), expected.Next32());
      std::vector<uint32_t> numbers(size);
      FillRandom(&filled, absl::MakeSpan(numbers));
      for (const uint32_t number : numbers) ASSERT_EQ(number, expected.Next32());
      EXPECT_EQ(filled.state(), expected.state());
    }
  }
}

TEST(FillRandom, IsTheSameInAllInstructionSets) {
  constexpr uint64_t kKey = 0x123456789abcdef0;
  constexpr uint64_t kFirst = 0xffffffff - 9;  // Carries into the next word.
  constexpr size_t kBlocks = 37;
  for (const InstructionSet set : SupportedInstructionSets()) {
    SCOPED_TRACE(InstructionSetName(set));
    std::vector<uint32_t> numbers(4 * kBlocks);
    internal_selection::PhiloxLoopFor(set)(kKey, kFirst, kBlocks, numbers.data());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const uint64_t block = kFirst + i / 4;
      ASSERT_EQ(numbers[i], internal_base::Philox4x32({static_cast<uint32_t>(block),
                                                       static_cast<uint32_t>(block >> 32), 0, 0},
                                                      {0x9abcdef0, 0x12345678})[i % 4]);
    }
  }
}

}  // namespace
}  // namespace ding
