#include "ding_worker/policy/mlp/panel_products.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/mlp/normalization_kernels.h"
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

TEST_P(PanelKernelsTest, SeveralPanelsGiveTheBytesOfEach) {
  constexpr int64_t kM = 27;
  constexpr int64_t kInner = 8;
  constexpr int64_t kPanels = 5;
  const std::vector<float> a = RandomFloats(kM * kInner);
  const std::vector<float> b = RandomFloats(kPanels * kInner * kPanelRows);
  const std::vector<float> before = RandomFloats(kPanels * kM * kPanelRows);
  for (int64_t panels = 0; panels <= kPanels; ++panels) {
    for (const int64_t lanes : {1, 8, 9, 16}) {
      SCOPED_TRACE(testing::Message() << panels << " panels, " << lanes << " lanes");
      PanelProduct product;
      product.m_size = kM;
      product.inner_size = kInner;
      product.a = a.data();
      product.a_row = kInner;
      product.start = PanelProduct::Start::kAdd;
      std::vector<float> each = before;
      for (int64_t panel = 0; panel < panels; ++panel) {
        product.b = b.data() + panel * kInner * kPanelRows;
        product.c = each.data() + panel * kM * kPanelRows;
        product.lanes = panel == panels - 1 ? lanes : kPanelRows;
        kernels_.multiply(product);
      }
      std::vector<float> all = before;
      product.panels = panels;
      product.b = b.data();
      product.b_panel = kInner * kPanelRows;
      product.c = all.data();
      product.c_panel = kM * kPanelRows;
      product.lanes = lanes;
      kernels_.multiply(product);
      EXPECT_EQ(all, each);
    }
  }
}

TEST_P(PanelKernelsTest, FewLanesAndSmallTilesGiveEqualBytes) {
  constexpr int64_t kM = 39;
  constexpr int64_t kInner = 52;
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
  for (int64_t m = 0; m < kM; ++m) {
    const std::vector<float> one = multiply(m, 1, kPanelRows);
    EXPECT_EQ(std::memcmp(&all[m * kPanelRows], &one[0], 4 * kPanelRows), 0);
  }
  for (int64_t lanes = 1; lanes <= kHalfPanelRows; ++lanes) {
    const std::vector<float> few = multiply(0, kM, lanes);
    for (int64_t m = 0; m < kM; ++m) {
      EXPECT_EQ(std::memcmp(&all[m * kPanelRows], &few[m * kPanelRows], 4 * lanes), 0)
          << "row " << m << " of " << lanes << " lanes";
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
