#include "ding_worker/policy/testing/bare_products.h"

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

RnnBareProducts::RnnBareProducts(const RnnStructure& structure, int64_t sequences, int64_t length)
    : cell_(structure.cell),
      has_encoder_(structure.encoder.has_value()),
      sequences_(static_cast<int>(sequences)),
      length_(static_cast<int>(length)),
      heads_(structure.heads, sequences * length),
      weight_ih_(cell_.gate_rows() * cell_.in, kWeight),
      weight_hh_(cell_.gate_rows() * cell_.hidden, kWeight),
      inputs_(sequences * length * cell_.in, kActivation),
      hidden_(sequences * length * cell_.hidden, kActivation),
      gates_(sequences * length * cell_.gate_rows(), kActivation),
      results_(sequences * length * std::max(cell_.in, cell_.hidden)),
      gradient_(cell_.gate_rows() * std::max(cell_.in, cell_.hidden)) {
  if (has_encoder_) encoder_.emplace(*structure.encoder, sequences * length);
}

void RnnBareProducts::Forward() {
  const int in = static_cast<int>(cell_.in);
  const int hidden = static_cast<int>(cell_.hidden);
  const int gates = static_cast<int>(cell_.gate_rows());
  if (has_encoder_) encoder_->Forward();
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, sequences_ * length_, gates, in, 1,
              inputs_.data(), in, weight_ih_.data(), in, 0, gates_.data(), gates);
  for (int64_t t = 0; t < length_; ++t) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, sequences_, gates, hidden, 1,
                hidden_.data() + t * sequences_ * hidden, hidden, weight_hh_.data(), hidden, 1,
                gates_.data() + t * sequences_ * gates, gates);
  }
  heads_.Forward();
}

void RnnBareProducts::Backward() {
  const int in = static_cast<int>(cell_.in);
  const int hidden = static_cast<int>(cell_.hidden);
  const int gates = static_cast<int>(cell_.gate_rows());
  const int rows = sequences_ * length_;
  heads_.Backward();
  for (int64_t t = length_ - 1; t > 0; --t) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, sequences_, hidden, gates, 1,
                gates_.data() + t * sequences_ * gates, gates, weight_hh_.data(), hidden, 0,
                results_.data() + t * sequences_ * hidden, hidden);
  }
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, gates, hidden, rows, 1, gates_.data(), gates,
              hidden_.data(), hidden, 0, gradient_.data(), hidden);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, gates, in, rows, 1, gates_.data(), gates,
              inputs_.data(), in, 0, gradient_.data(), in);
  if (!has_encoder_) return;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, in, gates, 1, gates_.data(), gates,
              weight_ih_.data(), in, 0, results_.data(), in);
  encoder_->Backward();
}

}  // namespace ding
