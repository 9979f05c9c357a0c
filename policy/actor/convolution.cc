#include "ding_worker/policy/actor/convolution.h"

#include <algorithm>
#include <vector>

namespace ding::internal_actor {
namespace {

// So many windows are made at once, so that they fit the cache.
constexpr int64_t kWindowsAtOnce = 64;

int64_t WindowSize(const ConvLayer& layer) {
  return layer.in[0] * layer.options.kernel * layer.options.kernel;
}

}  // namespace

Convolution::Convolution(const ModelConvolution& model, int64_t in_stride)
    : layer_(model.layer),
      in_stride_(in_stride),
      weight_(layer_.out[0], WindowSize(layer_)),
      bias_(RoundUpToBlock(layer_.out[0])),
      windows_(kWindowsAtOnce * WindowSize(layer_)),
      output_(layer_.out[1] * layer_.out[2] * RoundUpToBlock(layer_.out[0])) {
  const int64_t channels = layer_.in[0];
  const int64_t kernel_size = layer_.options.kernel * layer_.options.kernel;
  std::vector<float> row(static_cast<size_t>(WindowSize(layer_)));
  for (int64_t out = 0; out < layer_.out[0]; ++out) {
    const float* const from = model.weight.data() + out * channels * kernel_size;
    for (int64_t at = 0; at < kernel_size; ++at) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        row[static_cast<size_t>(at * channels + channel)] = from[channel * kernel_size + at];
      }
    }
    weight_.SetRow(out, row.data());
    bias_.data()[out] = model.bias[static_cast<size_t>(out)];
  }
}

float* Convolution::Run(const RowKernels& kernels, const float* picture, bool relu) {
  const int64_t pixels = layer_.out[1] * layer_.out[2];
  const int64_t stride = layer_.options.stride;
  RowProduct product;
  product.weight = &weight_;
  product.x = windows_.data();
  product.x_row = WindowSize(layer_);
  product.y_row = out_stride();
  product.bias = bias_.data();
  product.relu = relu;
  for (int64_t first = 0; first < pixels; first += kWindowsAtOnce) {
    product.rows = std::min(kWindowsAtOnce, pixels - first);
    for (int64_t i = 0; i < product.rows; ++i) {
      const int64_t row = (first + i) / layer_.out[2];
      const int64_t column = (first + i) % layer_.out[2];
      LoadWindow(picture, row * stride, column * stride, windows_.data() + i * product.x_row);
    }
    product.y = output_.data() + first * out_stride();
    kernels.multiply(product);
  }
  return output_.data();
}

void Convolution::LoadWindow(const float* picture, int64_t row, int64_t column,
                             float* window) const {
  const int64_t channels = layer_.in[0];
  const int64_t kernel = layer_.options.kernel;
  for (int64_t i = 0; i < kernel; ++i) {
    const int64_t y = row + i - layer_.options.padding;
    for (int64_t j = 0; j < kernel; ++j) {
      const int64_t x = column + j - layer_.options.padding;
      if (y < 0 || y >= layer_.in[1] || x < 0 || x >= layer_.in[2]) {
        window = std::fill_n(window, channels, 0.0f);
      } else {
        window = std::copy_n(picture + (y * layer_.in[2] + x) * in_stride_, channels, window);
      }
    }
  }
}

}  // namespace ding::internal_actor
