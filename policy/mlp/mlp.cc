#include "ding_worker/policy/mlp/mlp.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread_team.h"

namespace ding {

using internal_mlp::kPanelRows;
using internal_mlp::kTileRows;
using internal_mlp::NumPanels;
using internal_mlp::PanelProduct;
using internal_mlp::RowsInPanel;

namespace {

// Infer() splits a large batch into parts of this many rows, so that its working memory fits the cache.
constexpr int64_t kInferRows = 64;
// Threads share a pass of at least this many rows times parameters: some 8 microseconds of work.
constexpr int64_t kSharedProducts = int64_t{1} << 18;

std::vector<int64_t> SlotWidths(const MlpStructure& structure) {
  std::vector<int64_t> widths = {structure.input_width};
  for (const MlpLayer& layer : structure.layers) widths.push_back(layer.out);
  return widths;
}

// The widths of planes for layer normalization; empty without it.
std::vector<int64_t> NormalizedWidths(const MlpStructure& structure) {
  if (!structure.options.layer_norm) return {};
  std::vector<int64_t> widths = SlotWidths(structure);
  widths.erase(widths.begin());
  return widths;
}

std::vector<int64_t> RoundedUpToPanels(std::vector<int64_t> widths) {
  for (int64_t& width : widths) width = NumPanels(width) * kPanelRows;
  return widths;
}

int64_t MaxWidth(const MlpStructure& structure) {
  const std::vector<int64_t> widths = SlotWidths(structure);
  return *std::max_element(widths.begin(), widths.end());
}

Tensor MakeLastColumns(const MlpStructure& structure, int64_t threads) {
  return Tensor::Zeros(DType::kFloat32, {threads, MaxWidth(structure), kPanelRows});
}

std::vector<bool> FirstReaders(const MlpStructure& structure) {
  std::vector<bool> seen(structure.layers.size() + 1, false);
  std::vector<bool> first(structure.layers.size(), false);
  for (int i = static_cast<int>(structure.layers.size()) - 1; i >= 0; --i) {
    const int slot = structure.layers[i].source + 1;
    first[i] = !seen[slot];
    seen[slot] = true;
  }
  return first;
}

// Returns values[0] + values[per_action] + ... below `width`.
float SumOverActions(const float* values, int64_t width, int64_t per_action) {
  float sum = 0;
  for (int64_t a = 0; a < width; a += per_action) sum += values[a];
  return sum;
}

absl::Status CheckRows(int64_t input_rows, int64_t output_rows) {
  if (output_rows >= input_rows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("mlp: ", input_rows, " input rows, but room for ", output_rows, " output rows"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mlp>> Mlp::Create(const MlpOptions& options, SpecPtr input,
                                                 SpecPtr output, uint64_t seed) {
  DING_ASSIGN_OR_RETURN(MlpStructure structure,
                        MakeMlpStructure(options, std::move(input), std::move(output)));
  std::unique_ptr<Mlp> mlp = CreateOwning(std::move(structure));
  InitializeMlpParameters(mlp->structure_, seed, mlp->parameters());
  return mlp;
}

std::unique_ptr<Mlp> Mlp::CreatePart(MlpStructure structure, absl::Span<float> parameters,
                                     absl::Span<float> gradients) {
  const auto num_parameters = static_cast<size_t>(structure.num_parameters);
  DING_CHECK(parameters.size() == num_parameters && gradients.size() == num_parameters)
      << parameters.size() << " parameters and " << gradients.size() << " gradients for "
      << num_parameters;
  return absl::WrapUnique(new Mlp(std::move(structure), parameters, gradients));
}

std::unique_ptr<Mlp> Mlp::CreateOwning(MlpStructure structure) {
  Tensor parameters = Tensor::Zeros(DType::kFloat32, {structure.num_parameters});
  Tensor gradients = Tensor::Zeros(DType::kFloat32, {structure.num_parameters});
  std::unique_ptr<Mlp> mlp = CreatePart(std::move(structure), parameters.mutable_data<float>(),
                                        gradients.mutable_data<float>());
  mlp->owned_parameters_ = std::move(parameters);
  mlp->owned_gradients_ = std::move(gradients);
  return mlp;
}

Mlp::Mlp(MlpStructure structure, absl::Span<float> parameters, absl::Span<float> gradients)
    : structure_(std::move(structure)),
      kernels_(internal_mlp::PanelKernelsFor(BestInstructionSet())),
      normalization_(internal_mlp::NormalizationKernelsFor(BestInstructionSet())),
      first_reader_(FirstReaders(structure_)),
      parameters_(parameters),
      gradients_(gradients),
      infer_values_(1, Planes(SlotWidths(structure_))),
      values_(SlotWidths(structure_)),
      transposed_(RoundedUpToPanels(SlotWidths(structure_))),
      d_values_(SlotWidths(structure_)),
      normalized_(NormalizedWidths(structure_)),
      inverse_std_(std::vector<int64_t>(NormalizedWidths(structure_).size(), 1)),
      last_columns_(MakeLastColumns(structure_, /*threads=*/1)) {}

absl::Status Mlp::Infer(const ColumnsView& input, const MutableColumnsView& output) {
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.input, input.spec(), "mlp input"));
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.output, output.spec(), "mlp output"));
  DING_RETURN_IF_ERROR(CheckRows(input.rows(), output.rows()));
  DING_RETURN_IF_ERROR(CheckKeys(input.rows()));
  const int threads = NumThreads(input.rows());
  for (int i = 0; i < threads; ++i) {
    DING_RETURN_IF_ERROR(infer_values_[static_cast<size_t>(i)].Reserve(
        NumPanels(std::min(input.rows(), kInferRows))));
  }
  const absl::Span<const uint64_t> keys = Keys();
  ForPanels(input.rows(), [&](const Panels& panels, int thread) {
    const int64_t end = std::min(panels.end * kPanelRows, input.rows());
    for (int64_t begin = panels.begin * kPanelRows; begin < end; begin += kInferRows) {
      const int64_t rows = std::min(kInferRows, end - begin);
      Run(input.Slice(begin, rows),
          keys.empty() ? keys : keys.subspan(static_cast<size_t>(begin), static_cast<size_t>(rows)),
          /*keep=*/false, {0, NumPanels(rows)}, infer_values_[static_cast<size_t>(thread)],
          output.Slice(begin, rows));
    }
  });
  return absl::OkStatus();
}

void Mlp::set_thread_team(ThreadTeam* team) {
  team_ = team;
  const auto threads = static_cast<size_t>(team == nullptr ? 1 : team->size());
  while (infer_values_.size() < threads) infer_values_.emplace_back(SlotWidths(structure_));
  last_columns_ = MakeLastColumns(structure_, static_cast<int64_t>(threads));
}

int Mlp::NumThreads(int64_t rows) const {
  if (team_ == nullptr || rows * structure_.num_parameters < kSharedProducts) return 1;
  return team_->size();
}

void Mlp::ForPanels(int64_t rows, absl::FunctionRef<void(const Panels& panels, int thread)> work) {
  const int64_t panels = NumPanels(rows);
  const int threads = NumThreads(rows);
  if (threads == 1) {
    ScopedFlushDenormals flush;
    work({0, panels}, 0);
    return;
  }
  team_->Run([&](int thread) {
    ScopedFlushDenormals flush;
    const Panels part = {panels * thread / threads, panels * (thread + 1) / threads};
    if (part.begin < part.end) work(part, thread);
  });
}

absl::Status Mlp::Forward(const ColumnsView& input, const MutableColumnsView& output) {
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.input, input.spec(), "mlp input"));
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.output, output.spec(), "mlp output"));
  DING_RETURN_IF_ERROR(CheckRows(input.rows(), output.rows()));
  DING_RETURN_IF_ERROR(CheckKeys(input.rows()));
  forward_rows_ = -1;
  DING_RETURN_IF_ERROR(values_.Reserve(NumPanels(input.rows())));
  if (structure_.options.layer_norm) {
    DING_RETURN_IF_ERROR(normalized_.Reserve(NumPanels(input.rows())));
    DING_RETURN_IF_ERROR(inverse_std_.Reserve(NumPanels(input.rows())));
  }
  ForPanels(input.rows(), [&](const Panels& panels, int /*thread*/) {
    Run(input, Keys(), /*keep=*/true, panels, values_, output.Slice(0, input.rows()));
  });
  forward_rows_ = input.rows();
  return absl::OkStatus();
}

absl::Status Mlp::CheckKeys(int64_t rows) const {
  if (dropout_keys_.empty() || static_cast<int64_t>(dropout_keys_.size()) == rows) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("mlp: ", rows, " input rows, but ", dropout_keys_.size(), " dropout keys"));
}

// The keys of the rows, or none if nothing is dropped.
absl::Span<const uint64_t> Mlp::Keys() const {
  return structure_.options.dropout > 0 ? dropout_keys_ : absl::Span<const uint64_t>();
}

internal_mlp::DropoutMask Mlp::MaskOf(int layer, absl::Span<const uint64_t> keys,
                                      int64_t panel) const {
  const double dropout = structure_.options.dropout;
  internal_mlp::DropoutMask mask;
  mask.threshold = static_cast<uint32_t>(dropout * 0x1.0p32);
  mask.scale = static_cast<float>(1 / (1 - dropout));
  const int64_t rows = RowsInPanel(static_cast<int64_t>(keys.size()), panel);
  for (int64_t row = 0; row < rows; ++row) {
    mask.keys[row] =
        internal_mlp::DropoutKey(keys[static_cast<size_t>(panel * kPanelRows + row)], layer);
  }
  return mask;
}

internal_mlp::LayerNorm Mlp::NormOf(const MlpLayer& layer) const {
  const float* const parameters = parameters_.data();
  return {layer.out, parameters + layer.norm_weight_offset, parameters + layer.norm_bias_offset,
          structure_.options.activation == MlpOptions::Activation::kRelu};
}

void Mlp::Run(const ColumnsView& input, absl::Span<const uint64_t> keys, bool keep,
              const Panels& panels, const Planes& values, const MutableColumnsView& output) const {
  LoadInput(input, panels, values);
  for (int i = 0; i < static_cast<int>(structure_.layers.size()); ++i) {
    RunLayer(i, input.rows(), keys, keep, panels, values);
  }
  for (int i = 0; i < static_cast<int>(structure_.heads.size()); ++i) {
    StoreOutput(i, panels, values, output);
  }
}

void Mlp::LoadInput(const ColumnsView& input, const Panels& panels, const Planes& values) const {
  int64_t first_feature = 0;
  for (int field = 0; field < structure_.input->size(); ++field) {
    const int64_t width = structure_.input->field(field).num_elements();
    const float* const rows = input.column<float>(field).data();
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      internal_mlp::Transpose(rows + panel * kPanelRows * width, width,
                              RowsInPanel(input.rows(), panel), width,
                              values.panel(0, panel) + first_feature * kPanelRows, kPanelRows);
    }
    first_feature += width;
  }
}

void Mlp::RunLayer(int index, int64_t rows, absl::Span<const uint64_t> keys, bool keep,
                   const Panels& panels, const Planes& values) const {
  const MlpLayer& layer = structure_.layers[index];
  const bool tanh = structure_.options.activation == MlpOptions::Activation::kTanh;
  const float* const parameters = parameters_.data();
  PanelProduct product;
  product.m_size = layer.out;
  product.inner_size = layer.in;
  product.a = parameters + layer.weight_offset;
  product.a_row = layer.in;
  product.start = PanelProduct::Start::kBias;
  product.bias = parameters + layer.bias_offset;
  const bool norm = layer.norm_weight_offset >= 0;
  // Dropout and ReLU may change places, as no element changes its sign.
  product.relu = layer.hidden && !tanh && !norm;
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    product.b = values.panel(layer.source + 1, panel);
    product.c = values.panel(index + 1, panel);
    product.lanes = RowsInPanel(rows, panel);
    kernels_.multiply(product);
    if (layer.hidden && !keys.empty()) {
      normalization_.drop(MaskOf(index, keys, panel), layer.out, product.c);
    }
    if (norm) {
      normalization_.normalize(NormOf(layer), product.c,
                               keep ? normalized_.panel(index, panel) : nullptr,
                               keep ? inverse_std_.panel(index, panel) : nullptr);
    }
    if (layer.hidden && tanh) kernels_.tanh(product.c, layer.out * kPanelRows);
  }
}

void Mlp::StoreOutput(int index, const Panels& panels, const Planes& values,
                      const MutableColumnsView& output) const {
  const MlpHead& head = structure_.heads[index];
  const int64_t width = structure_.layers[head.layer].out;
  float* const rows = output.column<float>(index).data();
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    const float* const head_values = values.panel(head.layer + 1, panel);
    float* const to = rows + panel * kPanelRows * width;
    const int64_t panel_rows = RowsInPanel(output.rows(), panel);
    internal_mlp::Transpose(head_values, kPanelRows, width, panel_rows, to, width);
    if (head.value < 0) continue;
    const float* const state_value = values.panel(head.value + 1, panel);
    const int64_t per_action = structure_.layers[head.value].out;
    const auto num_actions = static_cast<float>(width / per_action);
    for (int64_t row = 0; row < panel_rows; ++row) {
      for (int64_t i = 0; i < per_action; ++i) {
        float* const advantage = to + row * width + i;
        const float mean = SumOverActions(advantage, width, per_action) / num_actions;
        const float offset = state_value[i * kPanelRows + row] - mean;
        for (int64_t a = 0; a < width; a += per_action) advantage[a] += offset;
      }
    }
  }
}

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

// d loss / d x[i] = sum over outputs of weight[o, i] * d loss / d y[o], added over the readers of x.
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
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    product.b = d_values_.panel(index + 1, panel);
    product.c = d_values_.panel(layer.source + 1, panel) + first * kPanelRows;
    product.lanes = RowsInPanel(forward_rows_, panel);
    kernels_.multiply(product);
  }
}

void Mlp::StoreInputGradient(int64_t first, absl::Span<float> d_input, const Panels& panels) const {
  const int64_t width = structure_.input_width - first;
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    internal_mlp::Transpose(d_values_.panel(0, panel) + first * kPanelRows, kPanelRows, width,
                            RowsInPanel(forward_rows_, panel),
                            d_input.data() + panel * kPanelRows * width, width);
  }
}

absl::StatusOr<std::unique_ptr<Network>> Mlp::Clone() const {
  std::unique_ptr<Mlp> clone = CreateOwning(structure_);
  const absl::Span<const float> from = parameters();
  std::copy(from.begin(), from.end(), clone->parameters().begin());
  return std::unique_ptr<Network>(std::move(clone));
}

std::string Mlp::info() const { return absl::StrCat("mlp ", structure_.DebugString()); }

}  // namespace ding
