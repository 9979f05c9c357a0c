#include "ding_worker/replay_buffer/selection/priority_tree.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/replay_buffer/selection/sequence_index.h"
#include "ding_worker/replay_buffer/selection/staleness_remover.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr double kTolerance = 1.4e-14;  // The bound that the header states.

std::unique_ptr<PriorityTree> MakeTree(int64_t leaves) {
  return PriorityTree::Create(leaves).value();
}

void SetOne(PriorityTree* tree, int64_t leaf, float weight) { tree->Set({leaf}, {weight}); }

int64_t FindOne(const PriorityTree& tree, double x) {
  int64_t leaf = -1;
  tree.Find(absl::MakeSpan(&x, 1), absl::MakeSpan(&leaf, 1));
  return leaf;
}

double SumOf(const std::vector<float>& weights, int64_t begin, int64_t end) {
  long double sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += weights[i];
  return static_cast<double>(sum);
}

float MinOf(const std::vector<float>& weights) {
  float min = std::numeric_limits<float>::infinity();
  for (const float weight : weights) min = weight > 0 ? std::min(min, weight) : min;
  return min;
}

// Checks that x lies in the interval of `leaf`, counted from `begin`, up to the rounding bound.
void ExpectContains(const std::vector<float>& weights, int64_t begin, int64_t leaf, double x) {
  ASSERT_GE(leaf, begin);
  ASSERT_LT(leaf, static_cast<int64_t>(weights.size()));
  EXPECT_GT(weights[leaf], 0);
  const double slack = kTolerance * SumOf(weights, begin, static_cast<int64_t>(weights.size()));
  const double before = SumOf(weights, begin, leaf);
  EXPECT_GE(x, before - slack) << "leaf " << leaf;
  EXPECT_LT(x, before + weights[leaf] + slack) << "leaf " << leaf;
}

TEST(PriorityTree, NewTreeHasNoWeights) {
  for (const int64_t leaves : {1, 2, 16, 17, 256, 257, 100000}) {
    const std::unique_ptr<PriorityTree> tree = MakeTree(leaves);
    EXPECT_EQ(tree->size(), leaves);
    EXPECT_EQ(tree->total(), 0);
    EXPECT_EQ(tree->min_weight(), std::numeric_limits<float>::infinity());
    EXPECT_EQ(tree->RangeSum(0, leaves), 0);
    EXPECT_EQ(tree->FindFrom(0, 0), leaves);
  }
}

TEST(PriorityTree, FindSkipsLeavesWithoutWeight) {
  const std::unique_ptr<PriorityTree> tree = MakeTree(8);
  tree->Assign(0, {0, 0.125f, 0.5f, 0, 0, 0.25f, 0.75f, 0});
  EXPECT_EQ(FindOne(*tree, 0), 1);
  EXPECT_EQ(FindOne(*tree, 0.12), 1);
  EXPECT_EQ(FindOne(*tree, 0.125), 2);
  EXPECT_EQ(FindOne(*tree, 0.62), 2);
  EXPECT_EQ(FindOne(*tree, 0.625), 5);
  EXPECT_EQ(FindOne(*tree, 0.87), 5);
  EXPECT_EQ(FindOne(*tree, 0.875), 6);
  EXPECT_EQ(FindOne(*tree, tree->total()), 6);
  EXPECT_EQ(tree->FindFrom(2, 0), 2);
  EXPECT_EQ(tree->FindFrom(3, 0), 5);
  EXPECT_EQ(tree->FindFrom(3, 0.25), 6);
  EXPECT_EQ(tree->FindFrom(7, 0), 8);
  EXPECT_EQ(tree->min_weight(), 0.125f);
}

TEST(PriorityTree, SumDoesNotDependOnEarlierWeights) {
  const std::unique_ptr<PriorityTree> tree = MakeTree(1000);
  const std::unique_ptr<PriorityTree> fresh = MakeTree(1000);
  Rng rng(3, "drift");
  for (int i = 0; i < 20000; ++i) {
    const auto weight = static_cast<float>(std::exp(rng.Uniform(-20, 20)));
    SetOne(tree.get(), static_cast<int64_t>(rng.UniformInt(1000)), weight);
  }
  for (int64_t leaf = 0; leaf < 1000; ++leaf) {
    SetOne(fresh.get(), leaf, tree->weight(leaf));
  }
  EXPECT_EQ(tree->total(), fresh->total());
  tree->Fill(0, 1000, 0);
  EXPECT_EQ(tree->total(), 0);
  SetOne(tree.get(), 999, 1e-5f);
  EXPECT_EQ(tree->total(), double{1e-5f});
}

TEST(PriorityTree, FindsTinyWeightsBesideHugeOnes) {
  const std::unique_ptr<PriorityTree> tree = MakeTree(300);
  tree->Fill(0, 300, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(tree->total()));
  EXPECT_EQ(FindOne(*tree, tree->total() * (1 - 1e-16)), 299);
  SetOne(tree.get(), 7, 1e-5f);
  EXPECT_EQ(tree->min_weight(), 1e-5f);
  // A range of small weights behind large ones keeps its own precision.
  tree->Fill(100, 300, 1e-5f);
  EXPECT_NEAR(tree->RangeSum(100, 300), 200 * double{1e-5f}, 1e-15);
  EXPECT_EQ(tree->FindFrom(100, 1.5 * double{1e-5f}), 101);
}

TEST(PriorityTree, RandomOperationsAgreeWithAVector) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed, "tree");
    const auto size = static_cast<int64_t>(1 + rng.UniformInt(seed % 4 == 0 ? 5000 : 300));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", size ", size));
    const auto leaf = [&] { return static_cast<int64_t>(rng.UniformInt(size)); };
    const auto weight = [&] {
      return rng.UniformInt(3) == 0 ? 0.0f : static_cast<float>(std::exp(rng.Uniform(-8, 8)));
    };
    const std::unique_ptr<PriorityTree> tree = MakeTree(size);
    std::vector<float> expected(static_cast<size_t>(size), 0.0f);
    for (int step = 0; step < 100; ++step) {
      const int64_t begin = leaf();
      const int64_t end = begin + static_cast<int64_t>(rng.UniformInt(size - begin + 1));
      switch (rng.UniformInt(3)) {
        case 0: {
          std::vector<int64_t> leaves(rng.UniformInt(40));
          std::vector<float> weights(leaves.size());
          for (size_t i = 0; i < leaves.size(); ++i) {
            leaves[i] = leaf();
            weights[i] = weight();
            expected[leaves[i]] = weights[i];
          }
          tree->Set(leaves, weights);
          break;
        }
        case 1: {
          const float value = weight();
          std::fill(expected.begin() + begin, expected.begin() + end, value);
          tree->Fill(begin, end, value);
          break;
        }
        default: {
          std::vector<float> weights(static_cast<size_t>(end - begin));
          for (float& value : weights) value = weight();
          std::copy(weights.begin(), weights.end(), expected.begin() + begin);
          tree->Assign(begin, weights);
        }
      }
      const double total = SumOf(expected, 0, size);
      ASSERT_NEAR(tree->total(), total, kTolerance * total);
      ASSERT_EQ(tree->min_weight(), MinOf(expected));
      const double part = SumOf(expected, begin, end);
      ASSERT_NEAR(tree->RangeSum(begin, end), part, kTolerance * part);
      ASSERT_EQ(tree->weight(begin), expected[begin]);
      if (tree->total() == 0) continue;
      std::vector<double> x(20);
      for (double& value : x) value = rng.Uniform(0, tree->total());
      const std::vector<double> asked = x;
      std::vector<int64_t> found(20);
      tree->Find(absl::MakeSpan(x), absl::MakeSpan(found));
      for (size_t i = 0; i < found.size(); ++i) {
        ExpectContains(expected, 0, found[i], asked[i]);
      }
      const double rest = tree->RangeSum(begin, size);
      if (rest == 0) continue;
      const double from = rng.Uniform(0, rest * (1 - 1e-13));
      ExpectContains(expected, begin, tree->FindFrom(begin, from), from);
    }
  }
}

TEST(RankedIds, RandomOperationsAgreeWithASet) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "ranked_ids");
    const auto capacity = static_cast<int64_t>(1 + rng.UniformInt(40));
    auto begin = static_cast<int64_t>(rng.UniformInt(1000));
    RankedIds ids(capacity, begin);
    std::set<int64_t> expected;
    for (int step = 0; step < 300; ++step) {
      if (rng.UniformInt(4) == 0) {
        begin += static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(2 * capacity)));
        ids.EvictBefore(begin);
        expected.erase(expected.begin(), expected.lower_bound(begin));
      } else {
        const int64_t id =
            begin + static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(capacity)));
        if (expected.insert(id).second) ids.Insert(id);
      }
      ASSERT_EQ(ids.size(), static_cast<int64_t>(expected.size()));
      int64_t rank = 0;
      for (const int64_t id : expected) ASSERT_EQ(ids.Select(rank++), id) << "step " << step;
    }
  }
}

std::vector<std::pair<int64_t, int64_t>> Take(StalenessIndex* index, int64_t iter) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  index->TakeUpTo(iter, [&taken](int64_t begin, int64_t end) { taken.emplace_back(begin, end); });
  return taken;
}

TEST(StalenessIndex, FindsRunsByIterationOnce) {
  StalenessIndex index;
  index.Add(0, {5, 5, 2, 9, -1, 2});
  EXPECT_EQ(index.runs(), 4);
  EXPECT_THAT(Take(&index, 1), IsEmpty());
  EXPECT_THAT(Take(&index, 5), ElementsAre(Pair(2, 3), Pair(5, 6), Pair(0, 2)));
  EXPECT_THAT(Take(&index, 5), IsEmpty());
}

TEST(StalenessIndex, RunsContinueAcrossPushesEvenAfterTheyWereTaken) {
  StalenessIndex index;
  index.Add(0, {3, 3});
  index.Add(2, {3});
  EXPECT_EQ(index.runs(), 1);
  EXPECT_THAT(Take(&index, 3), ElementsAre(Pair(0, 3)));
  index.Add(3, {3});
  EXPECT_THAT(Take(&index, 3), ElementsAre(Pair(0, 4)));
}

TEST(StalenessIndex, ForgetsEvictedRows) {
  StalenessIndex index;
  for (int64_t id = 0; id < 100; ++id) {
    index.Add(id, {id % 7});
    index.EvictBefore(id - 9);
    EXPECT_LE(index.runs(), 10);
  }
  index.EvictBefore(100);
  EXPECT_EQ(index.runs(), 0);
  EXPECT_THAT(Take(&index, 100), IsEmpty());
}

}  // namespace
}  // namespace ding
