#include "ding_worker/policy/mlp/mlp.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {

using internal_mlp::kPanelRows;
using internal_mlp::NumPanels;
using internal_mlp::PanelProduct;
using internal_mlp::RowsInPanel;

namespace {

// Infer() splits a large batch into parts of this many rows, so that its working memory fits the
// cache.
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

bool Mlp::set_thread_team(ThreadTeam* team) {
  team_ = team;
  const auto threads = static_cast<size_t>(team == nullptr ? 1 : team->size());
  while (infer_values_.size() < threads) infer_values_.emplace_back(SlotWidths(structure_));
  last_columns_ = MakeLastColumns(structure_, static_cast<int64_t>(threads));
  return true;
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
  product.panels = panels.end - panels.begin;
  product.b = values.panel(layer.source + 1, panels.begin);
  product.b_panel = layer.in * kPanelRows;
  product.c = values.panel(index + 1, panels.begin);
  product.c_panel = layer.out * kPanelRows;
  product.lanes = RowsInPanel(rows, panels.end - 1);
  kernels_.multiply(product);
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    float* const outputs = values.panel(index + 1, panel);
    if (layer.hidden && !keys.empty()) {
      normalization_.drop(MaskOf(index, keys, panel), layer.out, outputs);
    }
    if (norm) {
      normalization_.normalize(NormOf(layer), outputs,
                               keep ? normalized_.panel(index, panel) : nullptr,
                               keep ? inverse_std_.panel(index, panel) : nullptr);
    }
    if (layer.hidden && tanh) kernels_.tanh(outputs, layer.out * kPanelRows);
  }
}

float Mlp::SumOverActions(const float* values, int64_t width, int64_t per_action) {
  float sum = 0;
  for (int64_t a = 0; a < width; a += per_action) sum += values[a];
  return sum;
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

absl::StatusOr<std::unique_ptr<Network>> Mlp::Clone() const {
  std::unique_ptr<Mlp> clone = CreateOwning(structure_);
  const absl::Span<const float> from = parameters();
  std::copy(from.begin(), from.end(), clone->parameters().begin());
  return std::unique_ptr<Network>(std::move(clone));
}

std::string Mlp::info() const { return absl::StrCat("mlp ", structure_.DebugString()); }

}  // namespace ding
