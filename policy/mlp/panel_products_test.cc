#include "ding_worker/policy/mlp/panel_products.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/policy/mlp/panel_kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding::internal_mlp {
namespace {

using testing::Each;

const PanelKernels& Kernels() { return PanelKernelsFor(BestInstructionSet()); }

std::vector<float> RandomFloats(int64_t size, int stream) {
  Rng rng(1, "panel_products_test", stream);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(rng.Normal());
  return values;
}

TEST(PanelProductsTest, RowsFillPanels) {
  EXPECT_EQ(NumPanels(0), 0);
  EXPECT_EQ(NumPanels(16), 1);
  EXPECT_EQ(NumPanels(17), 2);
  EXPECT_EQ(RowsInPanel(20, 0), 16);
  EXPECT_EQ(RowsInPanel(20, 1), 4);
}

TEST(PanelProductsTest, PlanesGrowAndBeginWithZeros) {
  Planes planes({3, 0, 5});
  ASSERT_THAT(planes.Reserve(2), IsOk());
  EXPECT_THAT(std::vector<float>(planes.plane(0), planes.plane(0) + 2 * 3 * kPanelRows),
              Each(0.0f));
  EXPECT_EQ(planes.panel(2, 1), planes.plane(2) + 5 * kPanelRows);
  float* const before = planes.plane(0);
  ASSERT_THAT(planes.Reserve(1), IsOk());
  EXPECT_EQ(planes.plane(0), before);
  ASSERT_THAT(planes.Reserve(7), IsOk());
  EXPECT_EQ(planes.capacity_panels(), 7);
}

// Several blocks of rows of `a`, several panels in several groups.
TEST(PanelProductsTest, ProductsOfAllPanelsAgreeWithTheDefinition) {
  constexpr int64_t kOut = 41;
  constexpr int64_t kIn = 300;
  for (const int64_t rows : {3, 16, 37}) {
    const PanelGroups panels = {3, rows};
    const int64_t all = panels.groups * panels.panels();
    const std::vector<float> a = RandomFloats(kOut * kIn, 1);
    const std::vector<float> bias = RandomFloats(kOut, 2);
    const std::vector<float> b = RandomFloats(all * kIn * kPanelRows, 3);
    std::vector<float> c(all * kOut * kPanelRows);
    PanelProduct product;
    product.m_size = kOut;
    product.inner_size = kIn;
    product.a = a.data();
    product.a_row = kIn;
    product.b = b.data();
    product.c = c.data();
    product.start = PanelProduct::Start::kBias;
    product.bias = bias.data();
    MultiplyPanels(Kernels(), product, panels, kIn * kPanelRows, kOut * kPanelRows);
    for (int64_t panel = 0; panel < all; ++panel) {
      for (int64_t lane = 0; lane < RowsInPanel(rows, panel % panels.panels()); ++lane) {
        for (int64_t m = 0; m < kOut; ++m) {
          double expected = bias[m];
          for (int64_t k = 0; k < kIn; ++k) {
            expected += double{a[m * kIn + k]} * b[(panel * kIn + k) * kPanelRows + lane];
          }
          ASSERT_NEAR(c[(panel * kOut + m) * kPanelRows + lane], expected, 2e-4);
        }
      }
    }
  }
}

// All ways in which groups can be cut into runs, and columns that fill a vector, half of it, or
// less.
TEST(PanelProductsTest, WeightGradientsAgreeWithTheDefinition) {
  constexpr int64_t kOut = 70;
  for (const int64_t in : {16, 24, 37}) {
    for (const PanelGroups panels : {PanelGroups{1, 5}, {1, 40}, {1, 4000}, {300, 16}, {300, 20}}) {
      const int64_t all = panels.groups * panels.panels();
      const std::vector<float> d_output = RandomFloats(all * kOut * kPanelRows, 1);
      const std::vector<float> source = RandomFloats(all * in * kPanelRows, 2);
      const int64_t block = all * kPanelRows * kPanelRows;
      std::vector<float> blocks(NumPanels(in) * block);
      std::vector<double> expected(kOut * in);
      for (int64_t panel = 0; panel < all; ++panel) {
        const int64_t rows = RowsInPanel(panels.rows, panel % panels.panels());
        TransposeToBlocks(source.data() + panel * in * kPanelRows, in, rows,
                          blocks.data() + panel * kPanelRows * kPanelRows, block);
        for (int64_t o = 0; o < kOut; ++o) {
          for (int64_t i = 0; i < in; ++i) {
            for (int64_t lane = 0; lane < rows; ++lane) {
              expected[o * in + i] += double{d_output[(panel * kOut + o) * kPanelRows + lane]} *
                                      source[(panel * in + i) * kPanelRows + lane];
            }
          }
        }
      }
      std::vector<float> gradient(kOut * in, -77);
      std::vector<float> last_columns(kOut * kPanelRows);
      WeightGradient weights = {kOut,          in,    d_output.data(), kOut * kPanelRows,
                                blocks.data(), block, gradient.data(), last_columns.data()};
      ComputeWeightGradient(Kernels(), weights, panels);
      for (int64_t i = 0; i < kOut * in; ++i) {
        ASSERT_NEAR(gradient[i], expected[i], 2e-3)
            << panels.groups << " groups of " << panels.rows << " rows, element " << i;
      }
      // A part of the outputs has the same bytes.
      constexpr int64_t kFirst = 24;
      std::vector<float> part((kOut - kFirst) * in, -77);
      weights.out = kOut - kFirst;
      weights.d_output += kFirst * kPanelRows;
      weights.gradient = part.data();
      ComputeWeightGradient(Kernels(), weights, panels);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), gradient.begin() + kFirst * in));
    }
  }
}

TEST(PanelProductsTest, WeightGradientsOfNoRowsAreZero) {
  std::vector<float> gradient(6, -77);
  ComputeWeightGradient(Kernels(), {2, 3, nullptr, 0, nullptr, 0, gradient.data(), nullptr},
                        {4, 0});
  EXPECT_THAT(gradient, Each(0.0f));
}

}  // namespace
}  // namespace ding::internal_mlp
