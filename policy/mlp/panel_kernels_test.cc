#include "ding_worker/policy/mlp/panel_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding::internal_mlp {
namespace {

constexpr uint64_t kSeed = 3;
constexpr float kUntouched = -77;

// Runs for every instruction set of this processor.
class PanelKernelsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  std::vector<float> RandomFloats(int64_t size) {
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(rng_.Normal());
    return values;
  }

  const PanelKernels& kernels_ = PanelKernelsFor(GetParam());
  Rng rng_{kSeed, "panel_kernels_test"};
};

INSTANTIATE_TEST_SUITE_P(All, PanelKernelsTest, testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) { return InstructionSetName(info.param); });

struct ProductSize {
  int64_t m, outer, inner, lanes;
};

// Computes an element of c in double precision.
double Expected(const PanelProduct& p, int64_t m, int64_t lane, float c) {
  double sum = 0;
  if (p.start == PanelProduct::Start::kBias) sum = p.bias[m];
  if (p.start == PanelProduct::Start::kAdd) sum = c;
  for (int64_t j = 0; j < p.outer_size; ++j) {
    for (int64_t k = 0; k < p.inner_size; ++k) {
      sum += double{p.a[m * p.a_row + j * p.a_outer + k * p.a_inner]} *
             p.b[j * p.b_outer + k * kPanelRows + lane];
    }
  }
  return p.relu ? std::max(sum, 0.0) : sum;
}

TEST_P(PanelKernelsTest, ProductsAgreeWithTheDefinition) {
  std::vector<ProductSize> sizes;
  for (int64_t m = 1; m <= 27; ++m)
    sizes.push_back({m, 1, 7, 16});  // Covers all sizes of the last tile.
  for (int64_t m = 1; m <= 27; ++m) sizes.push_back({m, 1, 7, 8});
  sizes.insert(sizes.end(), {{13, 3, 16, 16}, {13, 3, 16, 3}, {5, 0, 16, 16}, {130, 1, 64, 9}});
  for (const ProductSize& size : sizes) {
    for (const auto start :
         {PanelProduct::Start::kZero, PanelProduct::Start::kBias, PanelProduct::Start::kAdd}) {
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(testing::Message() << "m " << size.m << " outer " << size.outer << " inner "
                                        << size.inner << " lanes " << size.lanes << " start "
                                        << static_cast<int>(start) << " transposed " << transposed);
        const std::vector<float> a =
            RandomFloats(size.m * std::max<int64_t>(size.outer, 1) * size.inner);
        const std::vector<float> b =
            RandomFloats(std::max<int64_t>(size.outer, 1) * size.inner * kPanelRows);
        const std::vector<float> bias = RandomFloats(size.m);
        PanelProduct product;
        product.m_size = size.m;
        product.outer_size = size.outer;
        product.inner_size = size.inner;
        product.a = a.data();
        product.a_row = transposed ? 1 : size.inner;
        product.a_inner = transposed ? size.m : 1;
        product.a_outer = size.m * size.inner;
        product.b = b.data();
        product.b_outer = size.inner * kPanelRows;
        product.c_row = kPanelRows + 3;  // Rows of c have all alignments.
        product.lanes = size.lanes;
        product.start = start;
        product.bias = bias.data();
        product.relu = start == PanelProduct::Start::kBias;
        const std::vector<float> before = RandomFloats(size.m * product.c_row);
        std::vector<float> c = before;
        product.c = c.data();
        kernels_.multiply(product);
        const int64_t written = size.lanes <= kHalfPanelRows ? kHalfPanelRows : kPanelRows;
        for (int64_t m = 0; m < size.m; ++m) {
          for (int64_t lane = 0; lane < product.c_row; ++lane) {
            const int64_t at = m * product.c_row + lane;
            if (lane >= written) {
              ASSERT_EQ(c[at], before[at]) << "row " << m << " lane " << lane;
            } else {
              // At most 64 terms of size about 1, each rounded to 2^-24.
              ASSERT_NEAR(c[at], Expected(product, m, lane, before[at]), 2e-5)
                  << "row " << m << " lane " << lane;
            }
          }
        }
      }
    }
  }
}

TEST_P(PanelKernelsTest, HalfPanelsAndSmallTilesGiveEqualBytes) {
  constexpr int64_t kM = 23;
  constexpr int64_t kInner = 50;
  const std::vector<float> a = RandomFloats(kM * kInner);
  const std::vector<float> b = RandomFloats(kInner * kPanelRows);
  const auto multiply = [&](int64_t first_row, int64_t rows, int64_t lanes) {
    std::vector<float> c(kM * kPanelRows, kUntouched);
    PanelProduct product;
    product.m_size = rows;
    product.inner_size = kInner;
    product.a = a.data() + first_row * kInner;
    product.a_row = kInner;
    product.b = b.data();
    product.c = c.data();
    product.lanes = lanes;
    kernels_.multiply(product);
    return c;
  };
  const std::vector<float> all = multiply(0, kM, kPanelRows);
  const std::vector<float> half = multiply(0, kM, kHalfPanelRows);
  for (int64_t m = 0; m < kM; ++m) {
    const std::vector<float> one = multiply(m, 1, kPanelRows);
    EXPECT_EQ(std::memcmp(&all[m * kPanelRows], &half[m * kPanelRows], 4 * kHalfPanelRows), 0);
    EXPECT_EQ(std::memcmp(&all[m * kPanelRows], &one[0], 4 * kPanelRows), 0);
  }
}

TEST_P(PanelKernelsTest, ReluKeepsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> b(kPanelRows, 1.0f);
  b[3] = nan;
  b[5] = -1;
  const float a = 2;
  std::vector<float> c(kPanelRows);
  PanelProduct product;
  product.m_size = 1;
  product.inner_size = 1;
  product.a = &a;
  product.b = b.data();
  product.c = c.data();
  product.relu = true;
  kernels_.multiply(product);
  EXPECT_EQ(c[0], 2);
  EXPECT_TRUE(std::isnan(c[3]));
  EXPECT_EQ(c[5], 0);
}

TEST_P(PanelKernelsTest, TanhIsWithinAFewUnitsInTheLastPlace) {
  std::vector<float> values;
  for (double x = -20; x < 20; x += 0.001) values.push_back(static_cast<float>(x));
  for (double x = 1e-30; x < 1; x *= 1.5) values.push_back(static_cast<float>(x));
  values.push_back(std::numeric_limits<float>::infinity());
  values.resize((values.size() + kPanelRows - 1) / kPanelRows * kPanelRows, 0.0f);
  std::vector<float> results = values;
  kernels_.tanh(results.data(), static_cast<int64_t>(results.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = std::tanh(double{values[i]});
    EXPECT_NEAR(results[i], expected, std::abs(expected) * 4e-7) << "tanh of " << values[i];
    EXPECT_LE(std::abs(results[i]), 1.0f);
  }
  std::vector<float> nan(kPanelRows, std::numeric_limits<float>::quiet_NaN());
  kernels_.tanh(nan.data(), kPanelRows);
  EXPECT_TRUE(std::isnan(nan[0]));
}

TEST_P(PanelKernelsTest, ActivationGradientsAgreeWithTheDefinition) {
  std::vector<float> outputs = RandomFloats(3 * kPanelRows);
  outputs[4] = 0;
  const std::vector<float> d = RandomFloats(3 * kPanelRows);
  std::vector<float> relu = d;
  std::vector<float> tanh = d;
  kernels_.relu_gradient(outputs.data(), relu.data(), 3 * kPanelRows);
  kernels_.tanh_gradient(outputs.data(), tanh.data(), 3 * kPanelRows);
  for (size_t i = 0; i < d.size(); ++i) {
    EXPECT_EQ(relu[i], outputs[i] > 0 ? d[i] : 0);
    EXPECT_NEAR(tanh[i], d[i] * (1 - double{outputs[i]} * outputs[i]), 1e-5);
  }
}

TEST_P(PanelKernelsTest, SumsTheRowsOfABatchOnly) {
  constexpr int64_t kWidth = 5;
  for (const int64_t rows : {0, 1, 8, 15, 16, 17, 40, 64}) {
    const std::vector<float> plane = RandomFloats(4 * kWidth * kPanelRows);
    std::vector<float> sums(kWidth, kUntouched);
    kernels_.sum_rows(plane.data(), kWidth, rows, sums.data());
    for (int64_t f = 0; f < kWidth; ++f) {
      double expected = 0;
      for (int64_t row = 0; row < rows; ++row) {
        expected += plane[(row / kPanelRows * kWidth + f) * kPanelRows + row % kPanelRows];
      }
      EXPECT_NEAR(sums[f], expected, 1e-5) << rows << " rows, feature " << f;
    }
  }
}

TEST(TransposeTest, ExchangesRowsAndColumns) {
  for (int64_t rows = 0; rows <= 17; ++rows) {
    for (int64_t columns = 0; columns <= 9; ++columns) {
      const int64_t from_row = columns + 2;
      const int64_t to_row = rows + 3;
      std::vector<float> from(rows * from_row + 1);
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
      std::vector<float> to(columns * to_row + 1, kUntouched);
      Transpose(from.data(), from_row, rows, columns, to.data(), to_row);
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t r = 0; r < to_row; ++r) {
          EXPECT_EQ(to[c * to_row + r], r < rows ? from[r * from_row + c] : kUntouched);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ding::internal_mlp
