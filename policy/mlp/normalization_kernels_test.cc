#include "ding_worker/policy/mlp/normalization_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/mlp/panel_kernels.h"
#include "ding_worker/policy/mlp/panel_products.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding::internal_mlp {
namespace {

constexpr int64_t kWidth = 37;

// The formula of the header, one element at a time.
bool IsDropped(uint32_t key, uint32_t feature, uint32_t threshold) {
  uint32_t x = key + feature * 0x9E3779B9u;
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  x ^= x >> 16;
  return x < threshold;
}

// Runs for every instruction set of this processor.
class NormalizationKernelsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  std::vector<float> RandomFloats(int64_t size) {
    std::vector<float> values(static_cast<size_t>(size));
    for (float& value : values) value = static_cast<float>(rng_.Normal());
    return values;
  }
  LayerNorm Norm(bool relu) {
    weight_ = RandomFloats(kWidth);
    bias_ = RandomFloats(kWidth);
    return {kWidth, weight_.data(), bias_.data(), relu};
  }

  const NormalizationKernels& kernels_ = NormalizationKernelsFor(GetParam());
  Rng rng_{3, "normalization_kernels_test"};
  std::vector<float> weight_;
  std::vector<float> bias_;
};

INSTANTIATE_TEST_SUITE_P(All, NormalizationKernelsTest,
                         testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) { return InstructionSetName(info.param); });

// The results for one row, in double precision.
struct NormalizedRow {
  double inverse_std = 0;
  std::vector<double> normalized;
  std::vector<double> y;
};

NormalizedRow Normalize(const LayerNorm& norm, const std::vector<double>& x) {
  const auto width = static_cast<double>(x.size());
  double mean = 0;
  for (const double value : x) mean += value / width;
  double variance = 0;
  for (const double value : x) variance += (value - mean) * (value - mean) / width;
  NormalizedRow row;
  row.inverse_std = 1 / std::sqrt(variance + 1e-5);
  for (size_t f = 0; f < x.size(); ++f) {
    row.normalized.push_back((x[f] - mean) * row.inverse_std);
    const double y = norm.weight[f] * row.normalized[f] + norm.bias[f];
    row.y.push_back(norm.relu ? std::max(y, 0.0) : y);
  }
  return row;
}

std::vector<double> RowOf(const std::vector<float>& panel, int64_t lane) {
  std::vector<double> row;
  for (int64_t f = 0; f < kWidth; ++f) {
    row.push_back(panel[static_cast<size_t>(f * kPanelRows + lane)]);
  }
  return row;
}

TEST_P(NormalizationKernelsTest, NormalizesEachRow) {
  for (const bool relu : {false, true}) {
    const LayerNorm norm = Norm(relu);
    std::vector<float> x = RandomFloats(kWidth * kPanelRows);
    for (float& value : x) value = 3 * value + 5;
    std::vector<float> y = x;
    std::vector<float> normalized(x.size());
    std::vector<float> inverse_std(kPanelRows);
    kernels_.normalize(norm, y.data(), normalized.data(), inverse_std.data());
    for (int64_t lane = 0; lane < kPanelRows; ++lane) {
      const NormalizedRow expected = Normalize(norm, RowOf(x, lane));
      EXPECT_NEAR(inverse_std[static_cast<size_t>(lane)], expected.inverse_std, 1e-6);
      EXPECT_THAT(RowOf(normalized, lane),
                  testing::Pointwise(testing::DoubleNear(5e-6), expected.normalized));
      EXPECT_THAT(RowOf(y, lane), testing::Pointwise(testing::DoubleNear(1e-5), expected.y));
    }
    std::vector<float> alone = x;
    kernels_.normalize(norm, alone.data(), nullptr, nullptr);
    EXPECT_EQ(alone, y);
  }
}

TEST_P(NormalizationKernelsTest, EqualFeaturesAreZeroBeforeWeightAndBias) {
  const LayerNorm norm = Norm(/*relu=*/false);
  std::vector<float> y(kWidth * kPanelRows, 4.0f);
  kernels_.normalize(norm, y.data(), nullptr, nullptr);
  for (int64_t f = 0; f < kWidth; ++f) {
    // The mean is rounded; without a variance the error is multiplied by 1 / sqrt(1e-5) = 316.
    EXPECT_NEAR(y[static_cast<size_t>(f * kPanelRows)], bias_[static_cast<size_t>(f)], 1e-3);
  }
}

TEST_P(NormalizationKernelsTest, GradientsAgreeWithFiniteDifferencesInDoublePrecision) {
  constexpr double kStep = 1e-5;
  const LayerNorm norm = Norm(/*relu=*/false);
  const std::vector<float> x = RandomFloats(kWidth * kPanelRows);
  const std::vector<float> d_y = RandomFloats(kWidth * kPanelRows);
  std::vector<float> y = x;
  std::vector<float> normalized(x.size());
  std::vector<float> inverse_std(kPanelRows);
  kernels_.normalize(norm, y.data(), normalized.data(), inverse_std.data());
  std::vector<float> d_x = d_y;
  kernels_.normalize_gradient(norm, normalized.data(), inverse_std.data(), d_x.data());
  for (int64_t lane = 0; lane < kPanelRows; ++lane) {
    const std::vector<double> weights = RowOf(d_y, lane);
    for (size_t f = 0; f < kWidth; ++f) {
      double quotient = 0;
      for (const double side : {1.0, -1.0}) {
        std::vector<double> moved = RowOf(x, lane);
        moved[f] += side * kStep;
        const NormalizedRow row = Normalize(norm, moved);
        for (size_t k = 0; k < kWidth; ++k) quotient += side * row.y[k] * weights[k] / (2 * kStep);
      }
      EXPECT_NEAR(RowOf(d_x, lane)[f], quotient, 1e-5) << "row " << lane << ", feature " << f;
    }
  }
}

TEST_P(NormalizationKernelsTest, DropsWhatTheFormulaSays) {
  for (const double probability : {0.0, 0.01, 0.5, 0.9}) {
    DropoutMask mask;
    mask.threshold = static_cast<uint32_t>(probability * 4294967296.0);
    mask.scale = 1.25f;
    for (uint32_t& key : mask.keys) key = rng_.Next32();
    const std::vector<float> before = RandomFloats(kWidth * kPanelRows);
    std::vector<float> panel = before;
    kernels_.drop(mask, kWidth, panel.data());
    for (size_t i = 0; i < panel.size(); ++i) {
      const bool dropped = IsDropped(mask.keys[i % kPanelRows],
                                     static_cast<uint32_t>(i / kPanelRows), mask.threshold);
      ASSERT_EQ(panel[i], dropped ? 0 : 1.25f * before[i]) << "element " << i;
    }
  }
}

TEST_P(NormalizationKernelsTest, SumsProductsOverRowsOfAllPanels) {
  for (const int64_t rows : {1, 16, 21, 48}) {
    const std::vector<float> a = RandomFloats(3 * kWidth * kPanelRows);
    const std::vector<float> b = RandomFloats(3 * kWidth * kPanelRows);
    std::vector<float> sums(kWidth);
    kernels_.sum_products(a.data(), b.data(), kWidth, rows, sums.data());
    for (int64_t f = 0; f < kWidth; ++f) {
      double expected = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const auto at =
            static_cast<size_t>((row / kPanelRows * kWidth + f) * kPanelRows + row % kPanelRows);
        expected += double{a[at]} * b[at];
      }
      EXPECT_NEAR(sums[static_cast<size_t>(f)], expected, 2e-5) << rows << " rows, feature " << f;
    }
  }
}

// The masks are what dropout needs: the right share is dropped, and neighbours, rows and layers are
// independent.
TEST(DropoutMaskTest, SharesAndPairsAreThoseOfIndependentNumbers) {
  constexpr uint32_t kThreshold = 858993459;  // 0.2
  constexpr int64_t kRows = 2000;
  constexpr uint32_t kFeatures = 64;
  int64_t dropped = 0;
  int64_t neighbours = 0;
  int64_t rows = 0;
  int64_t layers = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto row_key = static_cast<uint64_t>(row);
    for (uint32_t f = 0; f < kFeatures; ++f) {
      if (!IsDropped(DropoutKey(row_key, 0), f, kThreshold)) continue;
      ++dropped;
      neighbours += IsDropped(DropoutKey(row_key, 0), f + 1, kThreshold) ? 1 : 0;
      rows += IsDropped(DropoutKey(row_key + 1, 0), f, kThreshold) ? 1 : 0;
      layers += IsDropped(DropoutKey(row_key, 1), f, kThreshold) ? 1 : 0;
    }
  }
  const double elements = kRows * double{kFeatures};
  // Five standard deviations of a mean of Bernoulli numbers with the variances 0.16, and 0.04 *
  // 0.96 for pairs.
  EXPECT_NEAR(static_cast<double>(dropped) / elements, 0.2, 5 * std::sqrt(0.16 / elements));
  for (const int64_t pairs : {neighbours, rows, layers}) {
    EXPECT_NEAR(static_cast<double>(pairs) / elements, 0.04, 5 * std::sqrt(0.0384 / elements));
  }
}

TEST(DropoutMaskTest, KeysOfRowsAndLayersDiffer) {
  std::set<uint32_t> keys;
  for (uint64_t row = 0; row < 50; ++row) {
    for (int64_t layer = 0; layer < 20; ++layer) keys.insert(DropoutKey(row, layer));
  }
  EXPECT_EQ(keys.size(), 1000u);
}

}  // namespace
}  // namespace ding::internal_mlp
