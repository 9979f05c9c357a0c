#include "ding_worker/policy/actor/row_products.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/actor/actor_network.h"
#include "gtest/gtest.h"

namespace ding::internal_actor {
namespace {

std::vector<float> RandomFloats(int64_t size, Rng* rng) {
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = static_cast<float>(rng->Normal());
  return values;
}

struct Product {
  Product(int64_t out, int64_t in, int64_t rows) : out(out), in(in), rows(rows), packed(out, in) {
    Rng rng(static_cast<uint64_t>(out * 1000 + in * 10 + rows), "row_products_test");
    weight = RandomFloats(out * in, &rng);
    for (int64_t o = 0; o < out; ++o) packed.SetRow(o, weight.data() + o * in);
    x = RandomFloats(rows * x_row(), &rng);
    bias = RandomFloats(packed.padded_out(), &rng);
    y = RandomFloats(rows * packed.padded_out(), &rng);
  }
  int64_t x_row() const { return in + 3; }
  RowProduct Request() {
    RowProduct product;
    product.weight = &packed;
    product.rows = rows;
    product.x = x.data();
    product.x_row = x_row();
    product.y = y.data();
    product.y_row = packed.padded_out();
    product.bias = bias.data();
    return product;
  }
  // Without the start of the sum.
  double Expected(int64_t row, int64_t o) const {
    double sum = 0;
    for (int64_t i = 0; i < in; ++i) sum += double{weight[o * in + i]} * x[row * x_row() + i];
    return sum;
  }

  const int64_t out;
  const int64_t in;
  const int64_t rows;
  PackedMatrix packed;
  std::vector<float> weight;
  std::vector<float> x;
  std::vector<float> bias;
  std::vector<float> y;
};

class RowProductsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  const RowKernels& kernels_ = RowKernelsFor(GetParam());
};

TEST_P(RowProductsTest, MultipliesEverySize) {
  for (const int64_t out : {1, 16, 17, 40, 64, 130, 150, 200}) {
    for (const int64_t in : {1, 2, 7, 64}) {
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, 64}) {
        for (const bool adds : {false, true}) {
          Product p(out, in, rows);
          const std::vector<float> before = p.y;
          RowProduct request = p.Request();
          if (adds) request.bias = nullptr;
          kernels_.multiply(request);
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t o = 0; o < out; ++o) {
              const int64_t at = row * p.packed.padded_out() + o;
              const double start = adds ? before[at] : p.bias[o];
              ASSERT_NEAR(p.y[at], start + p.Expected(row, o), 2e-5)
                  << out << " x " << in << ", " << rows << " rows: " << row << ", " << o;
            }
          }
        }
      }
    }
  }
}

TEST_P(RowProductsTest, ARowHasTheSameBytesInEveryBatch) {
  Product all(130, 33, 64);
  kernels_.multiply(all.Request());
  for (int64_t row = 0; row < all.rows; ++row) {
    std::vector<float> y(static_cast<size_t>(all.packed.padded_out()));
    RowProduct one = all.Request();
    one.rows = 1;
    one.x += row * one.x_row;
    one.y = y.data();
    kernels_.multiply(one);
    for (size_t o = 0; o < y.size(); ++o) ASSERT_EQ(y[o], all.y[row * y.size() + o]) << row;
  }
}

TEST_P(RowProductsTest, ReluKeepsNaN) {
  Product p(20, 3, 2);
  p.x[0] = std::numeric_limits<float>::quiet_NaN();
  RowProduct request = p.Request();
  request.relu = true;
  kernels_.multiply(request);
  bool positive = false;
  for (int64_t o = 0; o < p.out; ++o) {
    EXPECT_TRUE(std::isnan(p.y[o]));
    const float value = p.y[p.packed.padded_out() + o];
    EXPECT_NEAR(value, std::fmax(0, p.bias[o] + p.Expected(1, o)), 1e-5);
    positive = positive || value > 0;
  }
  EXPECT_TRUE(positive);
}

INSTANTIATE_TEST_SUITE_P(Sets, RowProductsTest, testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) { return InstructionSetName(info.param); });

struct Case {
  int64_t channels;
  int64_t rows;
  int64_t columns;
  ConvOptions options;
};

ModelConvolution RandomConvolution(const Case& of, Rng* rng) {
  ModelConvolution model;
  const ConvOptions& options = of.options;
  model.layer.options = options;
  model.layer.in = {of.channels, of.rows, of.columns};
  model.layer.out = {options.channels,
                     (of.rows + 2 * options.padding - options.kernel) / options.stride + 1,
                     (of.columns + 2 * options.padding - options.kernel) / options.stride + 1};
  model.weight.resize(options.channels * of.channels * options.kernel * options.kernel);
  model.bias.resize(options.channels);
  for (float& value : model.weight) value = static_cast<float>(rng->Normal());
  for (float& value : model.bias) value = static_cast<float>(rng->Normal());
  return model;
}

// By the definition; `picture` is [rows, columns, channels].
double Expected(const ModelConvolution& model, const std::vector<float>& picture, int64_t out,
                int64_t row, int64_t column) {
  const Shape& in = model.layer.in;
  const ConvOptions& options = model.layer.options;
  double sum = model.bias[out];
  for (int64_t channel = 0; channel < in[0]; ++channel) {
    for (int64_t i = 0; i < options.kernel; ++i) {
      for (int64_t j = 0; j < options.kernel; ++j) {
        const int64_t y = row * options.stride + i - options.padding;
        const int64_t x = column * options.stride + j - options.padding;
        if (y < 0 || y >= in[1] || x < 0 || x >= in[2]) continue;
        const int64_t at = ((out * in[0] + channel) * options.kernel + i) * options.kernel + j;
        sum += double{model.weight[at]} * picture[(y * in[2] + x) * in[0] + channel];
      }
    }
  }
  return sum;
}

TEST(Convolution, IsThatOfItsDefinition) {
  const RowKernels& kernels = RowKernelsFor(BestInstructionSet());
  for (const Case& of : {Case{1, 1, 1, {1, 1, 1, 0}}, Case{3, 10, 10, {16, 3, 1, 0}},
                         Case{4, 12, 9, {20, 4, 2, 1}}, Case{2, 7, 11, {5, 5, 3, 4}}}) {
    Rng rng(1, "convolution_test");
    const ModelConvolution model = RandomConvolution(of, &rng);
    std::vector<float> picture(of.channels * of.rows * of.columns);
    for (float& value : picture) value = static_cast<float>(rng.Normal());
    Convolution convolution(model, of.channels);
    const float* const result = convolution.Run(kernels, picture.data(), /*relu=*/false);
    const Shape& out = model.layer.out;
    for (int64_t channel = 0; channel < out[0]; ++channel) {
      for (int64_t row = 0; row < out[1]; ++row) {
        for (int64_t column = 0; column < out[2]; ++column) {
          EXPECT_NEAR(result[(row * out[2] + column) * convolution.out_stride() + channel],
                      Expected(model, picture, channel, row, column), 3e-5)
              << channel << ", " << row << ", " << column;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ding::internal_actor
