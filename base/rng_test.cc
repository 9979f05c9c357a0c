#include "ding_worker/base/rng.h"

#include <cmath>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_base::Philox4x32;
using testing::ElementsAre;

// From kat_vectors of Random123 1.14, "philox4x32 10".
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(
      Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Rng, NumbersAreTheBlockFunctionOfKeyAndCounter) {
  Rng rng(7, "test", 3);
  const uint64_t key = Rng::DeriveSeed(7, "test", 3);
  for (uint32_t block = 0; block < 3; ++block) {
    for (const uint32_t expected : Philox4x32(
             {block, 0, 0, 0}, {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)})) {
      EXPECT_EQ(rng.Next32(), expected);
    }
  }
}

TEST(Rng, TheNumbersOfAStreamNeverChange) {
  Rng rng(1, "golden", 2);
  std::vector<uint32_t> numbers;
  for (int i = 0; i < 4; ++i) numbers.push_back(rng.Next32());
  EXPECT_THAT(numbers, ElementsAre(1728356962u, 2726363353u, 3253709861u, 153882066u))
      << "the numbers of every saved run changed";
}

TEST(Rng, RestoresAtEveryPosition) {
  for (int position = 0; position < 13; ++position) {
    Rng rng(11, "save");
    for (int i = 0; i < position; ++i) rng.Next32();
    const Rng::State state = rng.state();
    Rng other(99, "other");
    other.Next32();
    other.set_state(state);
    EXPECT_EQ(other.state(), state) << "position " << position;
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(other.Next32(), rng.Next32()) << "position " << position << ", number " << i;
    }
  }
}

TEST(Rng, AnyThreeWordsAreAValidState) {
  for (const Rng::State& state :
       {Rng::State{5, 0, 1}, Rng::State{5, 0, 77}, Rng::State{~0ull, ~0ull, ~0ull}}) {
    Rng a(1, "a");
    Rng b(2, "b");
    b.Next64();
    a.set_state(state);
    b.set_state(state);
    for (int i = 0; i < 9; ++i) EXPECT_EQ(a.Next32(), b.Next32());
  }
}

TEST(Rng, DifferentNamesGiveDifferentStreams) {
  std::set<uint64_t> first;
  int streams = 0;
  for (const uint64_t seed : {0, 1, 2, 1000}) {
    for (const char* const purpose : {"", "a", "b", "ab", "ba", "collect/epsilon"}) {
      for (const uint64_t index : {0, 1, 2, 1000}) {
        first.insert(Rng(seed, purpose, index).Next64());
        ++streams;
      }
    }
  }
  EXPECT_EQ(static_cast<int>(first.size()), streams);
}

// The sample correlation of two independent streams of n uniforms has a standard deviation of
// 1/sqrt(n). By chance, it exceeds 5 standard deviations about once in a million.
TEST(Rng, StreamsOfNeighbouringNamesAreUncorrelated) {
  constexpr int kCount = 100000;
  const auto correlation = [](Rng a, Rng b) {
    double sum = 0;
    for (int i = 0; i < kCount; ++i) sum += (a.Uniform() - 0.5) * (b.Uniform() - 0.5);
    return sum / kCount * 12;
  };
  const double bound = 5 / std::sqrt(kCount);
  EXPECT_LT(std::abs(correlation(Rng(1, "x", 0), Rng(1, "x", 1))), bound);
  EXPECT_LT(std::abs(correlation(Rng(1, "x", 0), Rng(2, "x", 0))), bound);
  EXPECT_LT(std::abs(correlation(Rng(1, "x", 0), Rng(1, "y", 0))), bound);
  EXPECT_GT(correlation(Rng(1, "x", 0), Rng(1, "x", 0)), 0.9);
}

// Chi-squared over k cells has k - 1 degrees of freedom: mean k - 1, variance 2 (k - 1). The bounds
// are 5 standard deviations on both sides, because a generator that is too even is as wrong as a
// biased one.
void ExpectUniform(const std::vector<int>& cells, double expected) {
  double chi_squared = 0;
  for (const int count : cells) chi_squared += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(cells.size()) - 1;
  EXPECT_NEAR(chi_squared, freedom, 5 * std::sqrt(2 * freedom));
}

TEST(Rng, UniformFillsItsRangeEvenly) {
  constexpr int kCells = 100;
  constexpr int kPerCell = 2000;
  Rng rng(3, "uniform");
  std::vector<int> cells(kCells);
  for (int i = 0; i < kCells * kPerCell; ++i) {
    const double u = rng.Uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++cells[static_cast<size_t>(u * kCells)];
  }
  ExpectUniform(cells, kPerCell);
}

TEST(Rng, UniformOfARangeStaysInTheRange) {
  Rng rng(3, "range");
  double low = 1e9, high = -1e9;
  for (int i = 0; i < 10000; ++i) {
    const double u = rng.Uniform(-3, 5);
    low = std::min(low, u);
    high = std::max(high, u);
  }
  EXPECT_GE(low, -3);
  EXPECT_LT(low, -2.98);
  EXPECT_LT(high, 5);
  EXPECT_GT(high, 4.98);
}

TEST(Rng, UniformIntFillsItsRangeEvenly) {
  for (const uint64_t n : {2, 3, 7, 100}) {
    SCOPED_TRACE(n);
    constexpr int kPerCell = 2000;
    Rng rng(4, "int", n);
    std::vector<int> cells(n);
    for (uint64_t i = 0; i < n * kPerCell; ++i) ++cells[rng.UniformInt(n)];
    ExpectUniform(cells, kPerCell);
  }
  Rng rng(4, "one");
  EXPECT_EQ(rng.UniformInt(1), 0u);
}

// With n = 3 * 2^62, simple methods give a third of all values double weight: the remainder gives
// it to the values below 2^62; the high word of the product, without rejection, to the values of
// one residue modulo 3.
TEST(Rng, UniformIntHasNoBiasForLargeRanges) {
  const uint64_t n = 3ull << 62;
  constexpr int kCount = 100000;
  Rng rng(5, "large");
  std::vector<int> thirds(3);
  std::vector<int> residues(3);
  for (int i = 0; i < kCount; ++i) {
    const uint64_t value = rng.UniformInt(n);
    ASSERT_LT(value, n);
    ++thirds[value >> 62];
    ++residues[value % 3];
  }
  ExpectUniform(thirds, kCount / 3.0);
  ExpectUniform(residues, kCount / 3.0);
}

// The standard errors of the moments of n normals: mean 1/sqrt(n), variance sqrt(2/n), fourth
// moment sqrt(96/n).
TEST(Rng, NormalHasTheMomentsOfANormal) {
  constexpr int kCount = 200000;
  Rng rng(6, "normal");
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = rng.Normal();
    ASSERT_TRUE(std::isfinite(x));
    m1 += x / kCount;
    m2 += x * x / kCount;
    m3 += x * x * x / kCount;
    m4 += x * x * x * x / kCount;
  }
  EXPECT_NEAR(m1, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(m2, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(m3, 0, 5 * std::sqrt(15.0 / kCount));
  EXPECT_NEAR(m4, 3, 5 * std::sqrt(96.0 / kCount));
}

}  // namespace
}  // namespace ding
