#include "ding_worker/policy/actor/actor_network.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/loss/distributional_loss.h"

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

namespace ding {

using internal_actor::AlignedFloats;
using internal_actor::Convolution;
using internal_actor::PackedMatrix;
using internal_actor::RoundUpToBlock;
using internal_actor::RowProduct;

namespace {

// A large batch is computed in parts of this many rows, so that working memory fits the cache.
constexpr int64_t kRowsAtOnce = 64;
using DistributionKind = ActorDescription::Distribution::Kind;
constexpr float kWhite = 255;  // the largest value of a pixel in bytes

// Writes the bytes or floats [channels, pixels] to `to` [pixels, channels].
void LoadPicture(const FieldSpec& field, const std::byte* from, float* to) {
  const int64_t channels = field.shape[0];
  const int64_t pixels = field.shape[1] * field.shape[2];
  if (field.dtype != DType::kUint8) {
    internal_mlp::Transpose(reinterpret_cast<const float*>(from), pixels, channels, pixels, to,
                            channels);
    return;
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(from);
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      to[pixel * channels + channel] = static_cast<float>(bytes[channel * pixels + pixel]) / kWhite;
    }
  }
}

}  // namespace

ActorNetwork::Layer ActorNetwork::Pack(const ModelLayer& layer) {
  Layer packed;
  packed.weight = PackedMatrix(layer.out, layer.in);
  packed.bias = AlignedFloats(RoundUpToBlock(layer.out));
  packed.output = AlignedFloats(kRowsAtOnce * RoundUpToBlock(layer.out));
  packed.hidden = layer.hidden;
  for (int64_t out = 0; out < layer.out; ++out) {
    packed.weight.SetRow(out, layer.weight.data() + out * layer.in);
  }
  std::copy(layer.bias.begin(), layer.bias.end(), packed.bias.data());
  return packed;
}

std::vector<ActorNetwork::Layer> ActorNetwork::Pack(const std::vector<ModelLayer>& layers) {
  std::vector<Layer> packed;
  for (const ModelLayer& layer : layers) packed.push_back(Pack(layer));
  return packed;
}

ActorNetwork::Cell ActorNetwork::Pack(const ModelCell& cell) {
  Cell packed;
  packed.cell = cell.cell;
  packed.hidden = cell.hidden;
  packed.padded = RoundUpToBlock(cell.hidden);
  packed.weight_ih = PackedMatrix(cell.gates() * packed.padded, cell.in);
  packed.weight_hh = PackedMatrix(cell.gates() * packed.padded, cell.hidden);
  packed.bias = AlignedFloats(cell.gates() * packed.padded);
  packed.bias_hh = AlignedFloats(cell.gates() * packed.padded);
  for (int64_t gate = 0; gate < cell.gates(); ++gate) {
    for (int64_t i = 0; i < cell.hidden; ++i) {
      const int64_t from = gate * cell.hidden + i;
      const int64_t to = gate * packed.padded + i;
      packed.weight_ih.SetRow(to, cell.weight_ih.data() + from * cell.in);
      packed.weight_hh.SetRow(to, cell.weight_hh.data() + from * cell.hidden);
      packed.bias.data()[to] = cell.bias[static_cast<size_t>(from)];
      if (cell.bias_hh.empty()) continue;
      packed.bias_hh.data()[to] = cell.bias_hh[static_cast<size_t>(from)];
    }
  }
  packed.gates = AlignedFloats(kRowsAtOnce * internal_rnn::kKeptGates * packed.padded);
  packed.products = AlignedFloats(kRowsAtOnce * cell.gates() * packed.padded);
  packed.before = AlignedFloats(2 * kRowsAtOnce * packed.padded);
  packed.after = AlignedFloats(3 * kRowsAtOnce * packed.padded);
  return packed;
}

ActorNetwork::ActorNetwork(const ActorModel& model)
    : products_(internal_actor::RowKernelsFor(BestInstructionSet())),
      elementwise_(internal_mlp::PanelKernelsFor(BestInstructionSet())),
      cells_(internal_rnn::CellKernelsFor(BestInstructionSet())),
      tanh_(model.tanh()),
      encoder_(Pack(model.encoder)),
      distribution_(model.description.distribution) {
  int64_t picture_size = 0;
  for (int i = 0; i < model.inputs->size(); ++i) {
    const FieldSpec& spec = model.inputs->field(i);
    Field field;
    field.spec = spec;
    field.offset = feature_width_;
    field.width = spec.num_elements();
    int64_t stride = field.width > 0 && spec.shape.size() == 3 ? spec.shape[0] : 0;
    for (const ModelConvolution& convolution : model.convolutions[static_cast<size_t>(i)]) {
      picture_size = std::max(picture_size, spec.num_elements());
      field.convolutions.emplace_back(convolution, stride);
      stride = field.convolutions.back().out_stride();
      field.width = NumElements(convolution.layer.out);
    }
    feature_width_ += field.width;
    fields_.push_back(std::move(field));
  }
  picture_ = AlignedFloats(picture_size);
  features_ = AlignedFloats(kRowsAtOnce * feature_width_);
  if (model.cell.has_value()) cell_ = Pack(*model.cell);
  for (const ModelHead& head : model.heads) {
    heads_.push_back({Pack(head.layers), Pack(head.value), head.width(), head.per_action()});
  }
  if (!model.description.IsDistributionOf(DistributionKind::kAtoms) &&
      !model.description.IsDistributionOf(DistributionKind::kFractions)) {
    return;
  }
  head_outputs_ = AlignedFloats(kRowsAtOnce * heads_[0].width);
  if (model.fraction_features.empty()) return;
  const auto size = static_cast<int64_t>(model.fraction_features.size());
  fraction_features_ = AlignedFloats(size);
  std::copy(model.fraction_features.begin(), model.fraction_features.end(),
            fraction_features_.data());
  products_of_row_ = AlignedFloats(kRowsAtOnce * (size / distribution_->size));
  quantiles_ = AlignedFloats(heads_[0].width * distribution_->size);
}

void ActorNetwork::Run(const ColumnsView& input, float* states, const MutableColumnsView& output) {
  ScopedFlushDenormals flush;
  for (int64_t begin = 0; begin < input.rows(); begin += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, input.rows() - begin);
    Rows x = LoadInput(input.Slice(begin, rows));
    for (Layer& layer : encoder_) x = RunLayer(layer, x, rows);
    if (cell_.has_value()) {
      const int64_t state_size = (cell_->is_lstm() ? 2 : 1) * cell_->hidden;
      x = RunCell(x, rows, states + begin * state_size);
    }
    for (size_t i = 0; i < heads_.size(); ++i) {
      const int field = static_cast<int>(i);
      float* const to =
          output.column<float>(field).data() + begin * output.spec().field(field).num_elements();
      if (head_outputs_.size() > 0) {
        RunDistribution(heads_[i], x, rows, to);
      } else {
        RunHead(heads_[i], x, rows, to);
      }
    }
  }
}

ActorNetwork::Rows ActorNetwork::LoadInput(const ColumnsView& input) {
  if (fields_.size() == 1 && fields_[0].convolutions.empty()) {
    return {input.column<float>(0).data(), feature_width_};
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    Field& field = fields_[i];
    const std::byte* const column = input.raw_column(static_cast<int>(i));
    const int64_t row_bytes = field.spec.row_bytes();
    for (int64_t row = 0; row < input.rows(); ++row) {
      float* const to = features_.data() + row * feature_width_ + field.offset;
      const std::byte* const from = column + row * row_bytes;
      if (field.convolutions.empty()) {
        std::copy_n(reinterpret_cast<const float*>(from), field.width, to);
      } else {
        LoadPicture(field.spec, from, picture_.data());
        RunConvolutions(field, to);
      }
    }
  }
  return {features_.data(), feature_width_};
}

void ActorNetwork::RunConvolutions(Field& field, float* features) const {
  const float* picture = picture_.data();
  for (Convolution& convolution : field.convolutions) {
    float* const result = convolution.Run(products_, picture, !tanh_);
    if (tanh_) elementwise_.tanh(result, convolution.out_size());
    picture = result;
  }
  const Convolution& last = field.convolutions.back();
  const Shape& shape = last.layer().out;
  const int64_t pixels = shape[1] * shape[2];
  internal_mlp::Transpose(picture, last.out_stride(), pixels, shape[0], features, pixels);
}

ActorNetwork::Rows ActorNetwork::RunLayer(Layer& layer, Rows x, int64_t rows) const {
  RowProduct product;
  product.weight = &layer.weight;
  product.rows = rows;
  product.x = x.data;
  product.x_row = x.stride;
  product.y = layer.output.data();
  product.y_row = layer.weight.padded_out();
  product.bias = layer.bias.data();
  product.relu = layer.hidden && !tanh_;
  products_.multiply(product);
  if (layer.hidden && tanh_) elementwise_.tanh(product.y, rows * product.y_row);
  return {product.y, product.y_row};
}

ActorNetwork::Rows ActorNetwork::RunCell(Rows x, int64_t rows, float* states) {
  Cell& cell = *cell_;
  const int64_t hidden = cell.hidden;
  const int64_t padded = cell.padded;
  const int64_t state_size = (cell.is_lstm() ? 2 : 1) * hidden;
  const int64_t plane = kRowsAtOnce * padded;
  for (int64_t row = 0; row < rows; ++row) {
    const float* const state = states + row * state_size;
    std::copy_n(state, hidden, cell.before.data() + row * padded);
    if (!cell.is_lstm()) continue;
    std::copy_n(state + hidden, hidden, cell.before.data() + plane + row * padded);
  }
  RowProduct product;
  product.weight = &cell.weight_ih;
  product.rows = rows;
  product.x = x.data;
  product.x_row = x.stride;
  product.y = cell.gates.data();
  product.y_row = internal_rnn::kKeptGates * padded;
  product.bias = cell.bias.data();
  products_.multiply(product);
  product.weight = &cell.weight_hh;
  product.x = cell.before.data();
  product.x_row = padded;
  product.bias = nullptr;
  if (!cell.is_lstm()) {
    product.y = cell.products.data();
    product.y_row = cell.weight_hh.padded_out();
    product.bias = cell.bias_hh.data();
  }
  products_.multiply(product);
  for (int64_t row = 0; row < rows; ++row) {
    RunCellRow(row);
    float* const state = states + row * state_size;
    std::copy_n(cell.after.data() + row * padded, hidden, state);
    if (!cell.is_lstm()) continue;
    std::copy_n(cell.after.data() + plane + row * padded, hidden, state + hidden);
  }
  return {cell.after.data(), padded};
}

void ActorNetwork::RunCellRow(int64_t row) {
  Cell& cell = *cell_;
  const int64_t plane = kRowsAtOnce * cell.padded;
  const int64_t at = row * cell.padded;
  float* const gates = cell.gates.data() + row * internal_rnn::kKeptGates * cell.padded;
  if (cell.is_lstm()) {
    cells_.lstm_forward({cell.padded, gates, cell.before.data() + plane + at,
                         cell.after.data() + plane + at, cell.after.data() + 2 * plane + at,
                         cell.after.data() + at});
  } else {
    cells_.gru_forward({cell.padded, gates,
                        cell.products.data() + row * cell.weight_hh.padded_out(),
                        cell.before.data() + at, cell.after.data() + at});
  }
}

void ActorNetwork::RunHead(Head& head, Rows x, int64_t rows, float* output) const {
  Rows values = x;
  for (Layer& layer : head.layers) values = RunLayer(layer, values, rows);
  Rows base = x;
  for (Layer& layer : head.value) base = RunLayer(layer, base, rows);
  for (int64_t row = 0; row < rows; ++row) {
    float* const to = output + row * head.width;
    std::copy_n(values.data + row * values.stride, head.width, to);
    if (head.value.empty()) continue;
    const int64_t step = head.per_action;
    for (int64_t first = 0; first < step; ++first) {
      float sum = 0;
      for (int64_t i = first; i < head.width; i += step) sum += to[i];
      const float mean = sum / static_cast<float>(head.width / step);
      const float offset = base.data[row * base.stride + first] - mean;
      for (int64_t i = first; i < head.width; i += step) to[i] += offset;
    }
  }
}

void ActorNetwork::RunDistribution(Head& head, Rows x, int64_t rows, float* output) {
  const int64_t size = distribution_->size;
  const auto span = [](float* data, int64_t count) {
    return absl::MakeSpan(data, static_cast<size_t>(count));
  };
  if (distribution_->kind == DistributionKind::kFractions) {
    for (int64_t row = 0; row < rows; ++row) {
      RunFractions(head, x.data + row * x.stride);
      ComputeQuantileMeans(span(quantiles_.data(), head.width * size),
                           span(output + row * head.width, head.width));
    }
    return;
  }
  RunHead(head, x, rows, head_outputs_.data());
  ComputeCategoricalMeans(
      span(head_outputs_.data(), rows * head.width),
      {static_cast<float>(distribution_->v_min), static_cast<float>(distribution_->v_max), size},
      span(output, rows * head.width / size));
}

void ActorNetwork::RunFractions(Head& head, const float* x) {
  const int64_t size = distribution_->size;
  const int64_t width = fraction_features_.size() / size;
  for (int64_t begin = 0; begin < size; begin += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, size - begin);
    const float* const features = fraction_features_.data() + begin * width;
    for (int64_t n = 0; n < rows; ++n) {
      float* const to = products_of_row_.data() + n * width;
      for (int64_t d = 0; d < width; ++d) to[d] = x[d] * features[n * width + d];
    }
    RunHead(head, {products_of_row_.data(), width}, rows, head_outputs_.data());
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t action = 0; action < head.width; ++action) {
        quantiles_.data()[action * size + begin + n] =
            head_outputs_.data()[n * head.width + action];
      }
    }
  }
}

}  // namespace ding
