#include "ding_worker/policy/mlp/mlp.h"

#include <algorithm>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

using internal_mlp::kPanelRows;
using internal_mlp::PanelProduct;

namespace {

// Infer() splits a large batch into parts of this many rows, so that its working memory fits the cache.
constexpr int64_t kInferRows = 64;

int64_t NumPanels(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

// Returns the number of rows in panel `panel` of a batch of `rows` rows.
int64_t RowsInPanel(int64_t rows, int64_t panel) {
  return std::min(kPanelRows, rows - panel * kPanelRows);
}

std::vector<int64_t> SlotWidths(const MlpStructure& structure) {
  std::vector<int64_t> widths = {structure.input_width};
  for (const MlpLayer& layer : structure.layers) widths.push_back(layer.out);
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

absl::Status Mlp::Planes::Reserve(int64_t rows) {
  const int64_t panels = std::max<int64_t>(NumPanels(rows), 1);
  if (panels <= capacity_panels_) return absl::OkStatus();
  int64_t row_floats = 0;
  for (const int64_t width : widths_) row_floats += width;
  const int64_t size = row_floats * panels * kPanelRows * static_cast<int64_t>(sizeof(float));
  std::shared_ptr<std::byte> memory = AllocateAligned(size);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mlp: no memory for a batch of ", rows, " rows (", size, " bytes)"));
  }
  // Rows after the end of a batch are computed with its last panel, so they must be numbers.
  std::memset(memory.get(), 0, static_cast<size_t>(size));
  memory_ = std::move(memory);
  capacity_panels_ = panels;
  planes_.clear();
  auto* next = reinterpret_cast<float*>(memory_.get());
  for (const int64_t width : widths_) {
    planes_.push_back(next);
    next += width * panels * kPanelRows;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mlp>> Mlp::Create(const MlpOptions& options, SpecPtr input,
                                                 SpecPtr output, uint64_t seed) {
  DING_ASSIGN_OR_RETURN(MlpStructure structure,
                        MakeMlpStructure(options, std::move(input), std::move(output)));
  auto mlp = absl::WrapUnique(new Mlp(std::move(structure)));
  InitializeMlpParameters(mlp->structure_, seed, mlp->parameters());
  return mlp;
}

Mlp::Mlp(MlpStructure structure)
    : structure_(std::move(structure)),
      kernels_(internal_mlp::PanelKernelsFor(BestInstructionSet())),
      first_reader_(FirstReaders(structure_)),
      parameters_(Tensor::Zeros(DType::kFloat32, {structure_.num_parameters})),
      gradients_(Tensor::Zeros(DType::kFloat32, {structure_.num_parameters})),
      infer_values_(SlotWidths(structure_)),
      values_(SlotWidths(structure_)),
      transposed_(RoundedUpToPanels(SlotWidths(structure_))),
      d_values_(SlotWidths(structure_)),
      last_columns_(Tensor::Zeros(DType::kFloat32, {MaxWidth(structure_), kPanelRows})) {}

absl::Status Mlp::Infer(const ColumnsView& input, const MutableColumnsView& output) {
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.input, input.spec(), "mlp input"));
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.output, output.spec(), "mlp output"));
  DING_RETURN_IF_ERROR(CheckRows(input.rows(), output.rows()));
  DING_RETURN_IF_ERROR(infer_values_.Reserve(std::min(input.rows(), kInferRows)));
  ScopedFlushDenormals flush;
  for (int64_t begin = 0; begin < input.rows(); begin += kInferRows) {
    const int64_t rows = std::min(kInferRows, input.rows() - begin);
    Run(input.Slice(begin, rows), infer_values_, output.Slice(begin, rows));
  }
  return absl::OkStatus();
}

absl::Status Mlp::Forward(const ColumnsView& input, const MutableColumnsView& output) {
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.input, input.spec(), "mlp input"));
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.output, output.spec(), "mlp output"));
  DING_RETURN_IF_ERROR(CheckRows(input.rows(), output.rows()));
  forward_rows_ = -1;
  DING_RETURN_IF_ERROR(values_.Reserve(input.rows()));
  ScopedFlushDenormals flush;
  Run(input, values_, output.Slice(0, input.rows()));
  forward_rows_ = input.rows();
  return absl::OkStatus();
}

void Mlp::Run(const ColumnsView& input, const Planes& values,
              const MutableColumnsView& output) const {
  LoadInput(input, values);
  for (int i = 0; i < static_cast<int>(structure_.layers.size()); ++i) {
    RunLayer(i, input.rows(), values);
  }
  for (int i = 0; i < static_cast<int>(structure_.heads.size()); ++i) {
    StoreOutput(i, values, output);
  }
}

void Mlp::LoadInput(const ColumnsView& input, const Planes& values) const {
  int64_t first_feature = 0;
  for (int field = 0; field < structure_.input->size(); ++field) {
    const int64_t width = structure_.input->field(field).num_elements();
    const float* const rows = input.column<float>(field).data();
    for (int64_t panel = 0; panel < NumPanels(input.rows()); ++panel) {
      internal_mlp::Transpose(rows + panel * kPanelRows * width, width,
                              RowsInPanel(input.rows(), panel), width,
                              values.panel(0, panel) + first_feature * kPanelRows, kPanelRows);
    }
    first_feature += width;
  }
}

void Mlp::RunLayer(int index, int64_t rows, const Planes& values) const {
  const MlpLayer& layer = structure_.layers[index];
  const bool tanh = structure_.options.activation == MlpOptions::Activation::kTanh;
  const float* const parameters = parameters_.data<float>().data();
  PanelProduct product;
  product.m_size = layer.out;
  product.inner_size = layer.in;
  product.a = parameters + layer.weight_offset;
  product.a_row = layer.in;
  product.start = PanelProduct::Start::kBias;
  product.bias = parameters + layer.bias_offset;
  product.relu = layer.hidden && !tanh;
  for (int64_t panel = 0; panel < NumPanels(rows); ++panel) {
    product.b = values.panel(layer.source + 1, panel);
    product.c = values.panel(index + 1, panel);
    product.lanes = RowsInPanel(rows, panel);
    kernels_.multiply(product);
    if (layer.hidden && tanh) kernels_.tanh(product.c, layer.out * kPanelRows);
  }
}

void Mlp::StoreOutput(int index, const Planes& values, const MutableColumnsView& output) const {
  const MlpHead& head = structure_.heads[index];
  const int64_t width = structure_.layers[head.layer].out;
  float* const rows = output.column<float>(index).data();
  for (int64_t panel = 0; panel < NumPanels(output.rows()); ++panel) {
    const float* const head_values = values.panel(head.layer + 1, panel);
    float* const to = rows + panel * kPanelRows * width;
    const int64_t panel_rows = RowsInPanel(output.rows(), panel);
    internal_mlp::Transpose(head_values, kPanelRows, width, panel_rows, to, width);
    if (head.value < 0) continue;
    const float* const state_value = values.panel(head.value + 1, panel);
    for (int64_t row = 0; row < panel_rows; ++row) {
      float sum = 0;
      for (int64_t a = 0; a < width; ++a) sum += to[row * width + a];
      const float offset = state_value[row] - sum / static_cast<float>(width);
      for (int64_t a = 0; a < width; ++a) to[row * width + a] += offset;
    }
  }
}

absl::Status Mlp::Backward(const ColumnsView& d_output) {
  DING_RETURN_IF_ERROR(
      CheckFirstFields(*structure_.output, d_output.spec(), "mlp output gradient"));
  if (d_output.rows() != forward_rows_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "mlp: Backward of ", d_output.rows(), " rows ",
        forward_rows_ < 0 ? std::string("without a Forward")
                          : absl::StrCat("after a Forward of ", forward_rows_, " rows")));
  }
  DING_RETURN_IF_ERROR(transposed_.Reserve(forward_rows_));
  DING_RETURN_IF_ERROR(d_values_.Reserve(forward_rows_));
  ScopedFlushDenormals flush;
  for (int i = 0; i < static_cast<int>(structure_.heads.size()); ++i) {
    LoadOutputGradient(i, d_output);
  }
  for (int i = static_cast<int>(structure_.layers.size()) - 1; i >= 0; --i) RunLayerBackward(i);
  forward_rows_ = -1;
  return absl::OkStatus();
}

void Mlp::LoadOutputGradient(int index, const ColumnsView& d_output) {
  const MlpHead& head = structure_.heads[index];
  const int64_t width = structure_.layers[head.layer].out;
  const float* const rows = d_output.column<float>(index).data();
  for (int64_t panel = 0; panel < NumPanels(forward_rows_); ++panel) {
    const float* const from = rows + panel * kPanelRows * width;
    const int64_t panel_rows = RowsInPanel(forward_rows_, panel);
    float* const to = d_values_.panel(head.layer + 1, panel);
    internal_mlp::Transpose(from, width, panel_rows, width, to, kPanelRows);
    if (head.value < 0) continue;
    float* const d_state_value = d_values_.panel(head.value + 1, panel);
    for (int64_t row = 0; row < panel_rows; ++row) {
      float sum = 0;
      for (int64_t a = 0; a < width; ++a) sum += from[row * width + a];
      d_state_value[row] = sum;
      for (int64_t a = 0; a < width; ++a)
        to[a * kPanelRows + row] -= sum / static_cast<float>(width);
    }
  }
}

void Mlp::RunLayerBackward(int index) {
  const MlpLayer& layer = structure_.layers[index];
  // By now all readers of this layer have added their parts to the gradient of its output.
  if (layer.hidden) {
    const auto activation_gradient = structure_.options.activation == MlpOptions::Activation::kTanh
                                         ? kernels_.tanh_gradient
                                         : kernels_.relu_gradient;
    activation_gradient(values_.plane(index + 1), d_values_.plane(index + 1),
                        NumPanels(forward_rows_) * layer.out * kPanelRows);
  }
  kernels_.sum_rows(d_values_.plane(index + 1), layer.out, forward_rows_,
                    gradients().data() + layer.bias_offset);
  if (first_reader_[index]) TransposeSource(layer);
  ComputeWeightGradient(index);
  if (layer.source >= 0) ComputeSourceGradient(index);
}

void Mlp::TransposeSource(const MlpLayer& layer) {
  const int slot = layer.source + 1;
  const int64_t block = kPanelRows * kPanelRows;
  for (int64_t columns = 0; columns < layer.in; columns += kPanelRows) {
    float* const to =
        transposed_.plane(slot) + columns * transposed_.capacity_panels() * kPanelRows;
    for (int64_t panel = 0; panel < NumPanels(forward_rows_); ++panel) {
      internal_mlp::Transpose(values_.panel(slot, panel) + columns * kPanelRows, kPanelRows,
                              std::min(kPanelRows, layer.in - columns),
                              RowsInPanel(forward_rows_, panel), to + panel * block, kPanelRows);
    }
  }
}

// d loss / d weight[o, i] = sum over rows of d loss / d y[o] * x[i].
void Mlp::ComputeWeightGradient(int index) {
  const MlpLayer& layer = structure_.layers[index];
  float* const gradient = gradients().data() + layer.weight_offset;
  float* const last_columns = last_columns_.mutable_data<float>().data();
  const int64_t full_panels = forward_rows_ / kPanelRows;
  for (int64_t columns = 0; columns < layer.in; columns += kPanelRows) {
    const int64_t num_columns = std::min(kPanelRows, layer.in - columns);
    const bool in_place = num_columns == kPanelRows || num_columns == internal_mlp::kHalfPanelRows;
    PanelProduct product;
    product.m_size = layer.out;
    product.outer_size = full_panels;
    product.inner_size = kPanelRows;
    product.a = d_values_.plane(index + 1);
    product.a_row = kPanelRows;
    product.a_outer = layer.out * kPanelRows;
    product.b =
        transposed_.plane(layer.source + 1) + columns * transposed_.capacity_panels() * kPanelRows;
    product.b_outer = kPanelRows * kPanelRows;
    product.c = in_place ? gradient + columns : last_columns;
    product.c_row = in_place ? layer.in : kPanelRows;
    product.lanes = num_columns;
    kernels_.multiply(product);
    if (const int64_t rest = forward_rows_ % kPanelRows; rest > 0) {
      product.a += full_panels * product.a_outer;
      product.b += full_panels * product.b_outer;
      product.outer_size = 1;
      product.inner_size = rest;
      product.start = PanelProduct::Start::kAdd;
      kernels_.multiply(product);
    }
    if (in_place) continue;
    for (int64_t o = 0; o < layer.out; ++o) {
      std::copy_n(last_columns + o * kPanelRows, num_columns, gradient + o * layer.in + columns);
    }
  }
}

// d loss / d x[i] = sum over outputs of weight[o, i] * d loss / d y[o], added over the readers of x.
void Mlp::ComputeSourceGradient(int index) {
  const MlpLayer& layer = structure_.layers[index];
  PanelProduct product;
  product.m_size = layer.in;
  product.inner_size = layer.out;
  product.a = parameters().data() + layer.weight_offset;
  product.a_row = 1;
  product.a_inner = layer.in;
  product.start = first_reader_[index] ? PanelProduct::Start::kZero : PanelProduct::Start::kAdd;
  for (int64_t panel = 0; panel < NumPanels(forward_rows_); ++panel) {
    product.b = d_values_.panel(index + 1, panel);
    product.c = d_values_.panel(layer.source + 1, panel);
    product.lanes = RowsInPanel(forward_rows_, panel);
    kernels_.multiply(product);
  }
}

absl::StatusOr<std::unique_ptr<Network>> Mlp::Clone() const {
  auto clone = absl::WrapUnique(new Mlp(structure_));
  const absl::Span<const float> from = parameters();
  std::copy(from.begin(), from.end(), clone->parameters().begin());
  return std::unique_ptr<Network>(std::move(clone));
}

std::string Mlp::info() const { return absl::StrCat("mlp ", structure_.DebugString()); }

}  // namespace ding
