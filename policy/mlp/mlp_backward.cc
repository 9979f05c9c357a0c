// The backward pass of an Mlp.
#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/policy/mlp/mlp.h"

namespace ding {

using internal_mlp::kPanelRows;
using internal_mlp::kTileRows;
using internal_mlp::NumPanels;
using internal_mlp::PanelProduct;
using internal_mlp::RowsInPanel;

absl::Status Mlp::CheckBackward(const ColumnsView& d_output) const {
  DING_RETURN_IF_ERROR(
      CheckFirstFields(*structure_.output, d_output.spec(), "mlp output gradient"));
  if (d_output.rows() == forward_rows_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "mlp: Backward of ", d_output.rows(), " rows ",
      forward_rows_ < 0 ? std::string("without a Forward")
                        : absl::StrCat("after a Forward of ", forward_rows_, " rows")));
}

absl::Status Mlp::CheckInputGradient(size_t size, int64_t first) const {
  const auto expected = static_cast<size_t>(forward_rows_ * (structure_.input_width - first));
  if (size == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "mlp: room for ", size, " elements of the input gradient, which has ", expected));
}

absl::Status Mlp::Backward(const ColumnsView& d_output, absl::Span<float> d_input) {
  DING_RETURN_IF_ERROR(CheckBackward(d_output));
  if (!d_input.empty()) DING_RETURN_IF_ERROR(CheckInputGradient(d_input.size(), 0));
  DING_RETURN_IF_ERROR(transposed_.Reserve(NumPanels(forward_rows_)));
  return RunBackward(d_output, /*weights=*/true, /*first=*/0, d_input);
}

absl::Status Mlp::BackwardToInput(const ColumnsView& d_output, int64_t first,
                                  absl::Span<float> d_input) {
  DING_CHECK(first >= 0 && first < structure_.input_width)
      << first << " of " << structure_.input_width;
  DING_RETURN_IF_ERROR(CheckBackward(d_output));
  DING_RETURN_IF_ERROR(CheckInputGradient(d_input.size(), first));
  return RunBackward(d_output, /*weights=*/false, first, d_input);
}

absl::Status Mlp::RunBackward(const ColumnsView& d_output, bool weights, int64_t first,
                              absl::Span<float> d_input) {
  DING_RETURN_IF_ERROR(d_values_.Reserve(NumPanels(forward_rows_)));
  const int threads = NumThreads(forward_rows_);
  const int last = static_cast<int>(structure_.layers.size()) - 1;
  const auto load = [&](const Panels& panels, int /*thread*/) {
    for (int i = 0; i < static_cast<int>(structure_.heads.size()); ++i) {
      LoadOutputGradient(i, d_output, panels);
    }
  };
  const auto store = [&](const Panels& panels, int /*thread*/) {
    if (!d_input.empty()) StoreInputGradient(first, d_input, panels);
  };
  const auto pass_on = [&](int i, const Panels& panels) {
    const MlpLayer& layer = structure_.layers[static_cast<size_t>(i)];
    ApplyNormalizationGradient(i, panels);
    if (weights && first_reader_[static_cast<size_t>(i)]) TransposeSource(layer, panels);
    // While this layer is in the cache.
    if (weights && threads == 1) ComputeWeightGradients(i, 0, layer.out, /*thread=*/0);
    if (layer.source >= 0 || !d_input.empty()) ComputeSourceGradient(i, first, panels);
  };
  if (weights && structure_.options.layer_norm) {
    // The gradients of a layer's normalization need all rows.
    ForPanels(forward_rows_, load);
    for (int i = last; i >= 0; --i) {
      ForPanels(forward_rows_,
                [&](const Panels& panels, int) { ApplyActivationGradient(i, panels); });
      ComputeNormGradients(i);
      ForPanels(forward_rows_, [&](const Panels& panels, int) { pass_on(i, panels); });
    }
    ForPanels(forward_rows_, store);
  } else {
    ForPanels(forward_rows_, [&](const Panels& panels, int thread) {
      load(panels, thread);
      for (int i = last; i >= 0; --i) {
        ApplyActivationGradient(i, panels);
        pass_on(i, panels);
      }
      store(panels, thread);
    });
  }
  if (weights && threads > 1) {
    team_->Run([&](int thread) {
      ScopedFlushDenormals flush;
      ComputePartOfWeightGradients(thread, threads);
    });
  }
  forward_rows_ = -1;
  return absl::OkStatus();
}

void Mlp::LoadOutputGradient(int index, const ColumnsView& d_output, const Panels& panels) {
  const MlpHead& head = structure_.heads[index];
  const int64_t width = structure_.layers[head.layer].out;
  const float* const rows = d_output.column<float>(index).data();
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    const float* const from = rows + panel * kPanelRows * width;
    const int64_t panel_rows = RowsInPanel(forward_rows_, panel);
    float* const to = d_values_.panel(head.layer + 1, panel);
    internal_mlp::Transpose(from, width, panel_rows, width, to, kPanelRows);
    if (head.value < 0) continue;
    float* const d_state_value = d_values_.panel(head.value + 1, panel);
    const int64_t per_action = structure_.layers[head.value].out;
    const auto num_actions = static_cast<float>(width / per_action);
    for (int64_t row = 0; row < panel_rows; ++row) {
      for (int64_t i = 0; i < per_action; ++i) {
        const float sum = SumOverActions(from + row * width + i, width, per_action);
        d_state_value[i * kPanelRows + row] = sum;
        for (int64_t a = i; a < width; a += per_action) {
          to[a * kPanelRows + row] -= sum / num_actions;
        }
      }
    }
  }
}

// By now all readers of this layer have added their parts to the gradient of its output.
void Mlp::ApplyActivationGradient(int index, const Panels& panels) {
  const MlpLayer& layer = structure_.layers[index];
  if (!layer.hidden) return;
  const auto activation_gradient = structure_.options.activation == MlpOptions::Activation::kTanh
                                       ? kernels_.tanh_gradient
                                       : kernels_.relu_gradient;
  activation_gradient(values_.panel(index + 1, panels.begin),
                      d_values_.panel(index + 1, panels.begin),
                      (panels.end - panels.begin) * layer.out * kPanelRows);
}

// The gradients of weight and bias of layer normalization, from that of its output.
void Mlp::ComputeNormGradients(int index) {
  const MlpLayer& layer = structure_.layers[index];
  if (layer.norm_weight_offset < 0) return;
  ScopedFlushDenormals flush;
  float* const gradients = gradients_.data();
  normalization_.sum_products(d_values_.plane(index + 1), normalized_.plane(index), layer.out,
                              forward_rows_, gradients + layer.norm_weight_offset);
  kernels_.sum_rows(d_values_.plane(index + 1), layer.out, forward_rows_,
                    gradients + layer.norm_bias_offset);
}

// From the gradient of what the activation reads to that of W x + b.
void Mlp::ApplyNormalizationGradient(int index, const Panels& panels) {
  const MlpLayer& layer = structure_.layers[index];
  const absl::Span<const uint64_t> keys = Keys();
  const bool norm = layer.norm_weight_offset >= 0;
  if (!layer.hidden || (!norm && keys.empty())) return;
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    float* const gradients = d_values_.panel(index + 1, panel);
    if (norm) {
      normalization_.normalize_gradient(NormOf(layer), normalized_.panel(index, panel),
                                        inverse_std_.panel(index, panel), gradients);
    }
    if (!keys.empty()) normalization_.drop(MaskOf(index, keys, panel), layer.out, gradients);
  }
}

void Mlp::TransposeSource(const MlpLayer& layer, const Panels& panels) {
  const int slot = layer.source + 1;
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    internal_mlp::TransposeToBlocks(values_.panel(slot, panel), layer.in,
                                    RowsInPanel(forward_rows_, panel),
                                    transposed_.plane(slot) + panel * kPanelRows * kPanelRows,
                                    transposed_.capacity_panels() * kPanelRows * kPanelRows);
  }
}

void Mlp::ComputeWeightGradients(int index, int64_t first_output, int64_t end_output, int thread) {
  const MlpLayer& layer = structure_.layers[index];
  if (end_output == layer.out) {
    kernels_.sum_rows(d_values_.plane(index + 1), layer.out, forward_rows_,
                      gradients_.data() + layer.bias_offset);
  }
  internal_mlp::WeightGradient weights;
  weights.out = end_output - first_output;
  weights.in = layer.in;
  weights.d_output = d_values_.plane(index + 1) + first_output * kPanelRows;
  weights.d_output_panel = layer.out * kPanelRows;
  weights.source = transposed_.plane(layer.source + 1);
  weights.source_block = transposed_.capacity_panels() * kPanelRows * kPanelRows;
  weights.gradient = gradients_.data() + layer.weight_offset + first_output * layer.in;
  weights.last_columns =
      last_columns_.mutable_data<float>().data() + thread * last_columns_.shape()[1] * kPanelRows;
  internal_mlp::ComputeWeightGradient(kernels_, weights, {1, forward_rows_});
}

void Mlp::ComputePartOfWeightGradients(int thread, int threads) {
  for (int i = static_cast<int>(structure_.layers.size()) - 1; i >= 0; --i) {
    const int64_t out = structure_.layers[static_cast<size_t>(i)].out;
    const auto begin_of = [&](int64_t k) {
      return std::min((out * k / threads + kTileRows - 1) / kTileRows * kTileRows, out);
    };
    const int64_t begin = begin_of(thread);
    const int64_t end = begin_of(thread + 1);
    if (begin < end) ComputeWeightGradients(i, begin, end, thread);
  }
}

// d loss / d x[i] = sum over outputs of weight[o, i] * d loss / d y[o], added over the readers of
// x.
void Mlp::ComputeSourceGradient(int index, int64_t first_input, const Panels& panels) {
  const MlpLayer& layer = structure_.layers[index];
  const int64_t first = layer.source < 0 ? first_input : 0;
  PanelProduct product;
  product.m_size = layer.in - first;
  product.inner_size = layer.out;
  product.a = parameters().data() + layer.weight_offset + first;
  product.a_row = 1;
  product.a_inner = layer.in;
  product.start = first_reader_[index] ? PanelProduct::Start::kZero : PanelProduct::Start::kAdd;
  product.panels = panels.end - panels.begin;
  product.b = d_values_.panel(index + 1, panels.begin);
  product.b_panel = layer.out * kPanelRows;
  product.c = d_values_.panel(layer.source + 1, panels.begin) + first * kPanelRows;
  product.c_panel = layer.in * kPanelRows;
  product.lanes = RowsInPanel(forward_rows_, panels.end - 1);
  kernels_.multiply(product);
}

void Mlp::StoreInputGradient(int64_t first, absl::Span<float> d_input, const Panels& panels) const {
  const int64_t width = structure_.input_width - first;
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    internal_mlp::Transpose(d_values_.panel(0, panel) + first * kPanelRows, kPanelRows, width,
                            RowsInPanel(forward_rows_, panel),
                            d_input.data() + panel * kPanelRows * width, width);
  }
}

}  // namespace ding
