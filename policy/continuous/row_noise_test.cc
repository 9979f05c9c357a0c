#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

struct Noise {
  std::vector<float> first;
  std::vector<float> second;
};

class RowNoiseTest : public testing::Test {
 protected:
  // Draws `width` numbers for each row.
  Noise Draw(const Batch& batch, int64_t train_iter, size_t width, uint64_t seed = 1) {
    SampledTransitionReader reader(observation_, action_);
    const auto view = reader.Read(batch);
    EXPECT_THAT(view, IsOk());
    const size_t size = static_cast<size_t>(batch.rows()) * width;
    Noise noise{std::vector<float>(size), std::vector<float>(size)};
    RowNoise(seed).Draw(*view, train_iter, absl::MakeSpan(noise.first),
                        absl::MakeSpan(noise.second));
    return noise;
  }

  const SpecPtr observation_ = *MakeSpec({Box("obs", {3})});
  const SpecPtr action_ = *MakeSpec({Box("action", {2}, {-1}, {1})});
  const Batch batch_ = MakeTransitionBatch(observation_, action_, 40, 7);
};

TEST_F(RowNoiseTest, BelongsToTheContentOfARowNotToItsPlace) {
  const Noise whole = Draw(batch_, 3, 2);
  const Noise part = Draw(batch_.Slice(10, 20), 3, 2);
  for (size_t i = 0; i < part.first.size(); ++i) {
    EXPECT_EQ(part.first[i], whole.first[20 + i]);
    EXPECT_EQ(part.second[i], whole.second[20 + i]);
  }
}

TEST_F(RowNoiseTest, RowsIterationsAndSeedsDiffer) {
  const Noise noise = Draw(batch_, 3, 1);
  std::vector<float> sorted = noise.first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()) - sorted.begin(), 40);
  const Noise later = Draw(batch_, 4, 1);
  const Noise other = Draw(batch_, 3, 1, /*seed=*/2);
  for (size_t i = 0; i < noise.first.size(); ++i) {
    EXPECT_NE(noise.first[i], later.first[i]);
    EXPECT_NE(noise.first[i], other.first[i]);
  }
}

TEST_F(RowNoiseTest, KeysDifferForRowsIterationsAndUses) {
  SampledTransitionReader reader(observation_, action_);
  RowNoise noise(1);
  // The keys of the last `rows` rows of the batch.
  const auto keys = [&](int64_t rows, int64_t train_iter, uint32_t use) {
    const auto view = reader.Read(batch_.Slice(40 - rows, rows));
    EXPECT_THAT(view, IsOk());
    std::vector<float> numbers(static_cast<size_t>(2 * rows));
    const auto all = absl::MakeSpan(numbers);
    noise.Draw(*view, 77, all.first(rows), all.last(rows));
    std::vector<uint64_t> drawn(static_cast<size_t>(rows));
    noise.DrawKeys(train_iter, use, absl::MakeSpan(drawn));
    return drawn;
  };
  const std::vector<uint64_t> whole = keys(40, 3, 0);
  EXPECT_EQ(keys(40, 3, 0), whole);
  EXPECT_EQ(keys(20, 3, 0), std::vector<uint64_t>(whole.begin() + 20, whole.end()));
  std::set<uint64_t> different;
  for (const auto& drawn : {whole, keys(40, 3, 1), keys(40, 4, 0), keys(40, 4, 1)}) {
    different.insert(drawn.begin(), drawn.end());
  }
  EXPECT_EQ(different.size(), 160u);
}

TEST_F(RowNoiseTest, IsStandardNormalAndTheTwoAreIndependent) {
  constexpr size_t kWidth = 3;
  double sum = 0, squares = 0, fourth = 0, product = 0, neighbours = 0;
  size_t count = 0;
  for (int64_t iteration = 0; iteration < 400; ++iteration) {
    const Noise noise = Draw(batch_, iteration, kWidth);
    for (size_t i = 0; i < noise.first.size(); ++i) {
      for (const double value : {noise.first[i], noise.second[i]}) {
        sum += value;
        squares += value * value;
        fourth += value * value * value * value;
      }
      product += noise.first[i] * noise.second[i];
      if (i > 0) neighbours += noise.first[i] * noise.first[i - 1];
    }
    count += noise.first.size();
  }
  const auto n = static_cast<double>(count);
  // Each bound is about four standard deviations of the mean of 48,000 or 96,000 numbers.
  EXPECT_NEAR(sum / (2 * n), 0, 0.013);
  EXPECT_NEAR(squares / (2 * n), 1, 0.02);
  EXPECT_NEAR(fourth / (2 * n), 3, 0.13);
  EXPECT_NEAR(product / n, 0, 0.02);
  EXPECT_NEAR(neighbours / n, 0, 0.02);
}

}  // namespace
}  // namespace ding
