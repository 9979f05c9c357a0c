#include <cstdint>
#include <vector>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/actor/actor_network.h"
#include "gtest/gtest.h"

namespace ding::internal_actor {
namespace {

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
