#include "ding_worker/policy/mlp/panel_products.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/mlp/panel_kernels.h"
#include "ding_worker/policy/testing/network_test_cases.h"
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
  for (const int64_t rows : {3, 16, 37, 40, 48, 60, 64}) {
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
    product.b_panel = kIn * kPanelRows;
    product.c_panel = kOut * kPanelRows;
    MultiplyPanels(Kernels(), product, panels);
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
  for (const int64_t in : {3, 8, 15, 16, 18, 24, 29, 37}) {
    for (const PanelGroups panels :
         {PanelGroups{1, 5}, {1, 40}, {1, 2000}, {1, 8}, {90, 16}, {90, 20}}) {
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
  for (int64_t lanes = 0; lanes <= 5; ++lanes) {
    sizes.insert(sizes.end(), {{8, 1, 4, lanes},
                               {37, 1, 12, lanes},
                               {37, 1, 13, lanes},
                               {32, 2, 8, lanes},
                               {16, 1, 0, lanes}});
  }
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
            if (lane >= size.lanes && lane < written) continue;
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

// Products of a layer, and of the gradients by its inputs (`transposed`) and weights (outer > 1).
class PanelBytesTest : public PanelKernelsTest {
 protected:
  static constexpr int64_t kM = 39;
  static constexpr int64_t kInner = 20;
  static constexpr int64_t kOuter = 3;
  static constexpr int64_t kPanels = 5;
  static constexpr int64_t kPanelOfB = kOuter * kInner * kPanelRows;
  static constexpr int64_t kPanelOfC = kM * kPanelRows;

  PanelProduct Product(PanelProduct::Start start, bool transposed, int64_t outer) {
    PanelProduct product;
    product.m_size = kM;
    product.outer_size = outer;
    product.inner_size = kInner;
    product.a = a_.data();
    product.a_row = transposed ? 1 : kInner;
    product.a_inner = transposed ? kM : 1;
    product.a_outer = kM * kInner;
    product.b = b_.data();
    product.b_outer = kInner * kPanelRows;
    product.b_panel = kPanelOfB;
    product.c_panel = kPanelOfC;
    product.start = start;
    product.bias = bias_.data();
    product.relu = start == PanelProduct::Start::kBias;
    return product;
  }
  std::vector<float> Multiply(PanelProduct product) {
    std::vector<float> c = before_;
    product.c = c.data();
    kernels_.multiply(product);
    return c;
  }
  // Calls `test` with every kind of product.
  void ForAll(const std::function<void(const PanelProduct&)>& test) {
    for (const auto start :
         {PanelProduct::Start::kZero, PanelProduct::Start::kBias, PanelProduct::Start::kAdd}) {
      for (const bool transposed : {false, true}) {
        for (const int64_t outer : {int64_t{1}, kOuter}) {
          SCOPED_TRACE(testing::Message() << "start " << static_cast<int>(start) << " transposed "
                                          << transposed << " outer " << outer);
          test(Product(start, transposed, outer));
        }
      }
    }
  }

  const std::vector<float> a_ = RandomFloats(kOuter * kM * kInner);
  const std::vector<float> b_ = RandomFloats(kPanels * kPanelOfB);
  const std::vector<float> bias_ = RandomFloats(kM);
  const std::vector<float> before_ = RandomFloats(kPanels * kPanelOfC);
};

INSTANTIATE_TEST_SUITE_P(All, PanelBytesTest, testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) { return InstructionSetName(info.param); });

TEST_P(PanelBytesTest, SeveralPanelsGiveTheBytesOfEach) {
  ForAll([&](PanelProduct product) {
    for (int64_t panels = 0; panels <= kPanels; ++panels) {
      for (const int64_t lanes : {1, 2, 4, 8, 9, 16}) {
        product.panels = panels;
        product.lanes = lanes;
        const std::vector<float> all = Multiply(product);
        for (int64_t panel = 0; panel < kPanels; ++panel) {
          std::vector<float> one(before_.begin() + panel * kPanelOfC,
                                 before_.begin() + (panel + 1) * kPanelOfC);
          if (panel < panels) {
            PanelProduct single = product;
            single.panels = 1;
            single.b += panel * kPanelOfB;
            single.c = one.data();
            single.lanes = panel == panels - 1 ? lanes : kPanelRows;
            kernels_.multiply(single);
          }
          ASSERT_EQ(std::memcmp(&all[panel * kPanelOfC], one.data(), 4 * kPanelOfC), 0)
              << "panel " << panel << " of " << panels << ", " << lanes << " lanes";
        }
      }
    }
  });
}

TEST_P(PanelBytesTest, FewLanesAndSmallTilesGiveEqualBytes) {
  ForAll([&](PanelProduct product) {
    const std::vector<float> all = Multiply(product);
    for (int64_t lanes = 1; lanes < kPanelRows; ++lanes) {
      product.lanes = lanes;
      const std::vector<float> few = Multiply(product);
      for (int64_t m = 0; m < kM; ++m) {
        ASSERT_EQ(std::memcmp(&all[m * kPanelRows], &few[m * kPanelRows], 4 * lanes), 0)
            << "row " << m << " of " << lanes << " lanes";
      }
    }
    product.lanes = kPanelRows;
    product.m_size = 1;
    for (int64_t m = 0; m < kM; ++m) {
      PanelProduct one = product;
      one.a += m * product.a_row;
      one.bias += m;
      std::vector<float> c(before_.begin() + m * kPanelRows,
                           before_.begin() + (m + 1) * kPanelRows);
      one.c = c.data();
      kernels_.multiply(one);
      ASSERT_EQ(std::memcmp(&all[m * kPanelRows], c.data(), 4 * kPanelRows), 0) << "row " << m;
    }
  });
}

TEST_P(PanelBytesTest, SumsBeginAtZeroIfTheBiasIsMinusZero) {
  PanelProduct product = Product(PanelProduct::Start::kBias, /*transposed=*/false, /*outer=*/1);
  product.relu = false;
  const std::vector<float> zeros(kM * kInner, 0.0f);
  const std::vector<float> minus(kPanelOfB, -1.0f);
  const std::vector<float> bias(kM, -0.0f);
  product.a = zeros.data();
  product.b = minus.data();
  product.bias = bias.data();
  for (int64_t lanes = 1; lanes <= kPanelRows; ++lanes) {
    product.lanes = lanes;
    const std::vector<float> c = Multiply(product);
    for (int64_t m = 0; m < kM; ++m) {
      ASSERT_TRUE(c[m * kPanelRows] == 0.0f && !std::signbit(c[m * kPanelRows]))
          << lanes << " lanes";
    }
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

// An Mlp with a team of threads computes the same bytes as one without.

std::vector<MlpTestCase> AllCases() {
  std::vector<MlpTestCase> cases = MlpTestCases();
  const std::vector<MlpTestCase> normalized = NormalizedMlpTestCases();
  cases.insert(cases.end(), normalized.begin(), normalized.end());
  return cases;
}

std::unique_ptr<Mlp> Create(const MlpTestCase& c) {
  auto mlp = Mlp::Create(c.options, *MakeSpec(c.input), *MakeSpec(c.output), /*seed=*/7);
  EXPECT_THAT(mlp, IsOk());
  return *std::move(mlp);
}

int64_t InputWidth(const Mlp& mlp) {
  int64_t width = 0;
  for (const FieldSpec& field : mlp.input_spec()->fields()) width += field.num_elements();
  return width;
}

void Append(const BatchBuilder& rows, std::vector<float>* values) {
  for (int field = 0; field < rows.view().spec().size(); ++field) {
    const auto column = rows.view().column<float>(field);
    values->insert(values->end(), column.begin(), column.end());
  }
}

// Returns all that the passes of `rows` rows compute.
std::vector<float> RunPasses(Mlp* mlp, int64_t rows) {
  std::vector<uint64_t> keys(static_cast<size_t>(rows));
  for (size_t row = 0; row < keys.size(); ++row) keys[row] = 1000 + row;
  const BatchBuilder input = NormalRows(mlp->input_spec(), rows, Rng(7, "mlp_threads_test", 1));
  const BatchBuilder output = NormalRows(mlp->output_spec(), rows, Rng(7, "mlp_threads_test", 2));
  const BatchBuilder d_output = NormalRows(mlp->output_spec(), rows, Rng(7, "mlp_threads_test", 3));
  std::vector<float> d_input(static_cast<size_t>(rows * InputWidth(*mlp)));
  std::vector<float> values;
  mlp->set_dropout_keys(keys);
  EXPECT_THAT(mlp->Infer(input.view(), output.view()), IsOk());
  Append(output, &values);
  EXPECT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  Append(output, &values);
  EXPECT_THAT(mlp->Backward(d_output.view(), absl::MakeSpan(d_input)), IsOk());
  values.insert(values.end(), d_input.begin(), d_input.end());
  values.insert(values.end(), mlp->gradients().begin(), mlp->gradients().end());
  EXPECT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  EXPECT_THAT(mlp->Backward(d_output.view()), IsOk());
  values.insert(values.end(), mlp->gradients().begin(), mlp->gradients().end());
  EXPECT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  EXPECT_THAT(mlp->BackwardToInput(d_output.view(), 1,
                                   absl::MakeSpan(d_input).subspan(static_cast<size_t>(rows))),
              IsOk());
  values.insert(values.end(), d_input.begin() + rows, d_input.end());
  return values;
}

class MlpThreadsTest : public testing::TestWithParam<MlpTestCase> {};

INSTANTIATE_TEST_SUITE_P(All, MlpThreadsTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(MlpThreadsTest, ManyThreadsComputeTheBytesOfOne) {
  const std::unique_ptr<Mlp> mlp = Create(GetParam());
  // From 2^18 products on the threads share a pass.
  const auto enough =
      (int64_t{1} << 18) / static_cast<int64_t>(mlp->parameters().size()) + int64_t{1};
  for (const int64_t rows : {enough, enough + 13, int64_t{5}}) {
    mlp->set_thread_team(nullptr);
    const std::vector<float> alone = RunPasses(mlp.get(), rows);
    for (const int threads : {2, 3}) {
      DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ThreadTeam> team,
                                ThreadTeam::Create(threads, "a test"));
      mlp->set_thread_team(team.get());
      const std::vector<float> together = RunPasses(mlp.get(), rows);
      ASSERT_EQ(together.size(), alone.size());
      const auto differ = std::mismatch(alone.begin(), alone.end(), together.begin());
      EXPECT_EQ(differ.first, alone.end())
          << rows << " rows, " << threads << " threads: value " << differ.first - alone.begin()
          << " is " << *differ.second << ", alone " << *differ.first;
    }
  }
}

}  // namespace
}  // namespace ding::internal_mlp
