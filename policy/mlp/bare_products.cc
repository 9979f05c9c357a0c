#include "ding_worker/policy/mlp/bare_products.h"

#include <cblas.h>

#include <algorithm>

namespace ding {
namespace {

constexpr float kWeight = 0.01f;
constexpr float kActivation = 0.5f;

int64_t MaxWidth(const MlpStructure& structure) {
  int64_t width = 0;
  for (const MlpLayer& layer : structure.layers) width = std::max({width, layer.in, layer.out});
  return width;
}

}  // namespace

BareProducts::BareProducts(const MlpStructure& structure, int64_t rows)
    : layers_(structure.layers),
      rows_(static_cast<int>(rows)),
      parameters_(static_cast<size_t>(structure.num_parameters), kWeight),
      gradients_(parameters_.size(), kWeight),
      input_(static_cast<size_t>(rows * MaxWidth(structure)), kActivation),
      output_(input_.size(), kActivation),
      result_(input_.size()) {
  openblas_set_num_threads(1);
}

void BareProducts::Forward() {
  for (const MlpLayer& layer : layers_) {
    const int in = static_cast<int>(layer.in);
    const int out = static_cast<int>(layer.out);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows_, out, in, 1, input_.data(), in,
                parameters_.data() + layer.weight_offset, in, 0, result_.data(), out);
  }
}

void BareProducts::Backward() {
  for (const MlpLayer& layer : layers_) {
    const int in = static_cast<int>(layer.in);
    const int out = static_cast<int>(layer.out);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, rows_, 1, output_.data(), out,
                input_.data(), in, 0, gradients_.data() + layer.weight_offset, in);
    if (layer.source >= 0) BackwardToSource(layer);
  }
}

void BareProducts::BackwardToInput() {
  for (const MlpLayer& layer : layers_) BackwardToSource(layer);
}

void BareProducts::BackwardToSource(const MlpLayer& layer) {
  const int in = static_cast<int>(layer.in);
  const int out = static_cast<int>(layer.out);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows_, in, out, 1, output_.data(), out,
              parameters_.data() + layer.weight_offset, in, 0, result_.data(), in);
}

}  // namespace ding
