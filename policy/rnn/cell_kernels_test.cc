// rnn_test.cc compares whole networks with a reference; here each instruction set is compared with
// formulas in double precision.
#include "ding_worker/policy/rnn/cell_kernels.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "gtest/gtest.h"

namespace ding::internal_rnn {
namespace {

constexpr int64_t kSize = 3 * 16;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<float> RandomPlanes(int64_t planes, int stream) {
  Rng rng(1, "cell_kernels_test", stream);
  std::vector<float> values(planes * kSize);
  for (float& value : values) value = static_cast<float>(2 * rng.Normal());
  return values;
}

class CellKernelsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  // Element i of plane `plane`.
  static double At(const std::vector<float>& planes, int64_t plane, int64_t i) {
    return planes[plane * kSize + i];
  }

  const CellKernels& kernels_ = CellKernelsFor(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, CellKernelsTest, testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) {
                           return std::string(InstructionSetName(info.param));
                         });

TEST_P(CellKernelsTest, Lstm) {
  const std::vector<float> a = RandomPlanes(4, 1);
  const std::vector<float> cell_before = RandomPlanes(1, 2);
  const std::vector<float> d_output = RandomPlanes(1, 3);
  const std::vector<float> d_hidden = RandomPlanes(1, 4);
  const std::vector<float> d_cell_after = RandomPlanes(1, 5);
  const std::vector<float> sums_before = RandomPlanes(4, 6);
  std::vector<float> gates = a;
  std::vector<float> cell(kSize), tanh_cell(kSize), hidden(kSize), d_gates(4 * kSize);
  std::vector<float> d_cell = d_cell_after;
  std::vector<float> sums = sums_before;
  kernels_.lstm_forward(
      {kSize, gates.data(), cell_before.data(), cell.data(), tanh_cell.data(), hidden.data()});
  kernels_.lstm_backward({kSize, gates.data(), cell_before.data(), tanh_cell.data(),
                          d_output.data(), d_hidden.data(), d_cell.data(), d_gates.data(),
                          sums.data()});
  for (int64_t k = 0; k < kSize; ++k) {
    const double i = Sigmoid(At(a, 0, k));
    const double f = Sigmoid(At(a, 1, k));
    const double g = std::tanh(At(a, 2, k));
    const double o = Sigmoid(At(a, 3, k));
    const double c = f * cell_before[k] + i * g;
    EXPECT_NEAR(cell[k], c, 4e-6);
    EXPECT_NEAR(hidden[k], o * std::tanh(c), 4e-6);
    const double d_h = double{d_output[k]} + d_hidden[k];
    const double d_c = d_cell_after[k] + d_h * o * (1 - std::tanh(c) * std::tanh(c));
    EXPECT_NEAR(d_cell[k], d_c * f, 2e-5);
    const double expected[] = {d_c * g * i * (1 - i), d_c * cell_before[k] * f * (1 - f),
                               d_c * i * (1 - g * g), d_h * std::tanh(c) * o * (1 - o)};
    for (int gate = 0; gate < 4; ++gate) {
      EXPECT_NEAR(At(d_gates, gate, k), expected[gate], 2e-5) << gate;
      EXPECT_NEAR(At(sums, gate, k) - At(sums_before, gate, k), expected[gate], 2e-5) << gate;
    }
  }
}

TEST_P(CellKernelsTest, Gru) {
  const std::vector<float> a = RandomPlanes(4, 1);  // The kernel writes the last plane.
  const std::vector<float> b = RandomPlanes(3, 2);
  const std::vector<float> hidden_before = RandomPlanes(1, 3);
  const std::vector<float> d_output = RandomPlanes(1, 4);
  const std::vector<float> d_hidden_after = RandomPlanes(1, 5);
  const std::vector<float> sums_before = RandomPlanes(4, 6);
  std::vector<float> gates = a;
  std::vector<float> hidden(kSize), d_gates(3 * kSize), d_products(3 * kSize);
  std::vector<float> d_hidden = d_hidden_after;
  std::vector<float> sums = sums_before;
  kernels_.gru_forward({kSize, gates.data(), b.data(), hidden_before.data(), hidden.data()});
  kernels_.gru_backward({kSize, gates.data(), hidden_before.data(), d_output.data(),
                         d_hidden.data(), d_gates.data(), d_products.data(), sums.data()});
  for (int64_t k = 0; k < kSize; ++k) {
    const double r = Sigmoid(At(a, 0, k) + At(b, 0, k));
    const double z = Sigmoid(At(a, 1, k) + At(b, 1, k));
    const double n = std::tanh(At(a, 2, k) + r * At(b, 2, k));
    EXPECT_NEAR(hidden[k], (1 - z) * n + z * hidden_before[k], 4e-6);
    const double d_h = double{d_output[k]} + d_hidden_after[k];
    EXPECT_NEAR(d_hidden[k], d_h * z, 2e-5);
    const double d_n = d_h * (1 - z) * (1 - n * n);
    const double d_r = d_n * At(b, 2, k) * r * (1 - r);
    const double d_z = d_h * (hidden_before[k] - n) * z * (1 - z);
    const double by_a[] = {d_r, d_z, d_n};
    const double by_b[] = {d_r, d_z, d_n * r};
    const double added[] = {d_r, d_z, d_n, d_n * r};
    for (int gate = 0; gate < 3; ++gate) {
      EXPECT_NEAR(At(d_gates, gate, k), by_a[gate], 2e-5) << gate;
      EXPECT_NEAR(At(d_products, gate, k), by_b[gate], 2e-5) << gate;
    }
    for (int gate = 0; gate < 4; ++gate) {
      EXPECT_NEAR(At(sums, gate, k) - At(sums_before, gate, k), added[gate], 2e-5) << gate;
    }
  }
}

}  // namespace
}  // namespace ding::internal_rnn
