// Registers export format "onnx": opset 13, with one node per product.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/actor_model.h"
#include "ding_worker/policy/export/exporter.h"
#include "ding_worker/policy/export/onnx_graph.h"

namespace ding {
namespace {

using DistributionKind = ActorDescription::Distribution::Kind;
constexpr float kWhite = 255;

class OnnxExporter {
 public:
  explicit OnnxExporter(const ActorModel& model) : model_(model) {}

  absl::StatusOr<std::string> Export() {
    std::string x = AddInputs();
    for (const ModelLayer& layer : model_.encoder) x = AddLayer(layer, x);
    if (model_.cell.has_value()) x = AddCell(*model_.cell, x);
    if (!model_.fraction_features.empty()) x = AddFractions(x);
    for (size_t i = 0; i < model_.heads.size(); ++i) AddHead(static_cast<int>(i), x);
    DING_RETURN_IF_ERROR(AddAction());
    return graph_.Encode();
  }

 private:
  using Graph = OnnxGraph;

  static Graph::Type TypeOf(DType dtype) {
    if (dtype == DType::kBool) return Graph::kBool;
    return dtype == DType::kUint8 ? Graph::kUint8 : Graph::kFloat;
  }

  std::string Cast(const std::string& x, Graph::Type type) {
    return graph_.Add("Cast", {x}, {Graph::Int("to", type)});
  }
  std::string Reshape(const std::string& x, const std::vector<int64_t>& shape,
                      const std::string& output = "") {
    return graph_.Add("Reshape", {x, graph_.Integers(shape)}, {}, output);
  }
  std::string Activate(const std::string& x) {
    return graph_.Add(model_.tanh() ? "Tanh" : "Relu", {x});
  }
  static std::vector<int64_t> RowsOf(absl::Span<const int64_t> shape) {
    std::vector<int64_t> rows = {-1};
    rows.insert(rows.end(), shape.begin(), shape.end());
    return rows;
  }

  // Returns the features of all inputs, [B, width].
  std::string AddInputs() {
    for (const FieldSpec& field : model_.observation->fields()) {
      graph_.AddInput(field.name, TypeOf(field.dtype), field.shape);
    }
    Graph::Names features;
    for (size_t i = 0; i < model_.convolutions.size(); ++i) {
      const FieldSpec& field = model_.inputs->field(static_cast<int>(i));
      std::string x = field.name;
      if (!model_.normalizers.empty()) x = Normalize(field, i, x);
      if (!model_.convolutions[i].empty()) x = AddConvolutions(field, i, x);
      const int64_t width = model_.convolutions[i].empty()
                                ? field.num_elements()
                                : NumElements(model_.convolutions[i].back().layer.out);
      features.push_back(Reshape(x, {-1, width}));
    }
    if (features.size() == 1) return features[0];
    return graph_.Add("Concat", features, {Graph::Int("axis", 1)});
  }

  // In float64, as RunningNormalizer.
  std::string Normalize(const FieldSpec& field, size_t index, const std::string& x) {
    const RunningNormalizer& normalizer = model_.normalizers[index];
    const std::vector<int64_t> shape = {field.num_elements()};
    const double clip = *model_.description.obs_clip;
    const std::string wide = Cast(Reshape(x, {-1, field.num_elements()}), Graph::kDouble);
    const std::string centered =
        graph_.Add("Sub", {wide, graph_.Doubles(normalizer.mean(), shape)});
    const std::string scaled =
        graph_.Add("Mul", {centered, graph_.Doubles(normalizer.scale(), shape)});
    return Cast(Clip(scaled, -clip, clip), Graph::kFloat);
  }

  std::string Clip(const std::string& x, double low, double high) {
    return graph_.Add(
        "Min", {graph_.Add("Max", {x, graph_.Doubles({low}, {})}), graph_.Doubles({high}, {})});
  }

  std::string AddConvolutions(const FieldSpec& field, size_t index, std::string x) {
    if (field.dtype == DType::kUint8) {
      x = graph_.Add("Div", {Cast(x, Graph::kFloat), graph_.Floats({kWhite}, {})});
    }
    for (const ModelConvolution& convolution : model_.convolutions[index]) {
      const ConvOptions& options = convolution.layer.options;
      const std::string weight = graph_.Floats(
          convolution.weight,
          {options.channels, convolution.layer.in[0], options.kernel, options.kernel});
      x = Activate(graph_.Add("Conv",
                              {x, weight, graph_.Floats(convolution.bias, {options.channels})},
                              {Graph::Ints("kernel_shape", {options.kernel, options.kernel}),
                               Graph::Ints("strides", {options.stride, options.stride}),
                               Graph::Ints("pads", std::vector<int64_t>(4, options.padding))}));
    }
    return x;
  }

  std::string Gemm(const std::string& x, const std::vector<float>& weight,
                   const std::vector<float>& bias, int64_t out, int64_t in) {
    return graph_.Add("Gemm", {x, graph_.Floats(weight, {out, in}), graph_.Floats(bias, {out})},
                      {Graph::Int("transB", 1)});
  }

  std::string AddLayer(const ModelLayer& layer, const std::string& x) {
    const std::string y = Gemm(x, layer.weight, layer.bias, layer.out, layer.in);
    return layer.hidden ? Activate(y) : y;
  }

  std::string AddCell(const ModelCell& cell, const std::string& x) {
    const int64_t rows = cell.gates() * cell.hidden;
    const std::vector<int64_t> gates(static_cast<size_t>(cell.gates()), cell.hidden);
    graph_.AddInput(kStateInput, Graph::kFloat, {cell.state_size()});
    graph_.AddOutput(kStateOutput, Graph::kFloat, {cell.state_size()});
    const std::string a = Gemm(x, cell.weight_ih, cell.bias, rows, cell.in);
    if (cell.cell == RnnCell::kGru) {
      const std::string b = Gemm(kStateInput, cell.weight_hh, cell.bias_hh, rows, cell.hidden);
      return AddGru(graph_.AddSplit(a, gates), graph_.AddSplit(b, gates));
    }
    const Graph::Names state = graph_.AddSplit(kStateInput, {cell.hidden, cell.hidden});
    const std::vector<float> no_bias(static_cast<size_t>(rows), 0.0f);
    const std::string b = Gemm(state[0], cell.weight_hh, no_bias, rows, cell.hidden);
    return AddLstm(graph_.AddSplit(graph_.Add("Add", {a, b}), gates), state[1]);
  }

  std::string AddLstm(const Graph::Names& gates, const std::string& cell_before) {
    const std::string in = graph_.Add("Sigmoid", {gates[0]});
    const std::string forget = graph_.Add("Sigmoid", {gates[1]});
    const std::string candidate = graph_.Add("Tanh", {gates[2]});
    const std::string out = graph_.Add("Sigmoid", {gates[3]});
    const std::string cell = graph_.Add(
        "Add", {graph_.Add("Mul", {forget, cell_before}), graph_.Add("Mul", {in, candidate})});
    const std::string hidden = graph_.Add("Mul", {out, graph_.Add("Tanh", {cell})});
    graph_.Add("Concat", {hidden, cell}, {Graph::Int("axis", 1)}, kStateOutput);
    return hidden;
  }

  std::string AddGru(const Graph::Names& a, const Graph::Names& b) {
    const std::string reset = graph_.Add("Sigmoid", {graph_.Add("Add", {a[0], b[0]})});
    const std::string keep = graph_.Add("Sigmoid", {graph_.Add("Add", {a[1], b[1]})});
    const std::string candidate =
        graph_.Add("Tanh", {graph_.Add("Add", {a[2], graph_.Add("Mul", {reset, b[2]})})});
    // (1 - z) n + z h = n + z (h - n)
    const std::string change =
        graph_.Add("Mul", {keep, graph_.Add("Sub", {kStateInput, candidate})});
    return graph_.Add("Add", {candidate, change}, {}, kStateOutput);
  }

  // Returns the products of the features and those of each fraction, [B * N, D].
  std::string AddFractions(const std::string& x) {
    const int64_t width = model_.encoder.back().out;
    const std::string features =
        graph_.Floats(model_.fraction_features, {1, model_.description.distribution->size, width});
    return Reshape(graph_.Add("Mul", {Reshape(x, {-1, 1, width}), features}), {-1, width});
  }

  // Returns the means over `axis` of [B, ...].
  std::string Mean(const std::string& x, int64_t axis, bool keep) {
    return graph_.Add("ReduceMean", {x},
                      {Graph::Ints("axes", {axis}), Graph::Int("keepdims", keep ? 1 : 0)});
  }

  // Returns the means of distributions [B, A, N] of logits.
  std::string AddAtoms(const std::string& logits) {
    const ActorDescription::Distribution& distribution = *model_.description.distribution;
    const auto size = static_cast<double>(distribution.size);
    std::vector<float> atoms;  // times N, because the sum is a mean times N
    for (int64_t i = 0; i < distribution.size; ++i) {
      const double step = (distribution.v_max - distribution.v_min) / (size - 1);
      const double atom = distribution.v_min + static_cast<double>(i) * step;
      atoms.push_back(static_cast<float>(size * atom));
    }
    const std::string probability = graph_.Add("Softmax", {logits}, {Graph::Int("axis", 2)});
    return Mean(graph_.Add("Mul", {probability, graph_.Floats(atoms, {distribution.size})}), 2,
                /*keep=*/false);
  }

  void AddHead(int index, const std::string& x) {
    const ModelHead& head = model_.heads[static_cast<size_t>(index)];
    const FieldSpec& field = model_.outputs->field(index);
    const bool atoms = model_.description.IsDistributionOf(DistributionKind::kAtoms);
    // Several outputs for each action are [B, A, N].
    const int64_t per_action = atoms ? model_.description.distribution->size : 1;
    const std::vector<int64_t> shape = {-1, head.width() / per_action, per_action};
    std::string y = x;
    for (const ModelLayer& layer : head.layers) y = AddLayer(layer, y);
    if (atoms) y = Reshape(y, shape);
    if (!head.value.empty()) {
      std::string value = x;
      for (const ModelLayer& layer : head.value) value = AddLayer(layer, value);
      if (atoms) value = Reshape(value, {-1, 1, per_action});
      y = graph_.Add("Add", {y, graph_.Add("Sub", {value, Mean(y, 1, /*keep=*/true)})});
    }
    if (atoms) y = AddAtoms(y);
    if (!model_.fraction_features.empty()) {
      const std::vector<int64_t> at_fractions = {-1, model_.description.distribution->size,
                                                 head.width()};
      y = Mean(Reshape(y, at_fractions), 1, /*keep=*/false);
    }
    graph_.AddOutput(field.name, Graph::kFloat, field.shape);
    Reshape(y, RowsOf(field.shape), field.name);
  }

  absl::Status AddAction() {
    const FieldSpec& action = model_.action->field(0);
    const std::string& head = model_.description.head;
    if (head == kQHead || head == kQDistributionHead || head == kCategoricalHead) {
      AddCategories(action, model_.outputs->field(0).name);
      return absl::OkStatus();
    }
    if (head == kNormalHead || head == kTanhHead || head == kTanhNormalHead ||
        head == kSquashedNormalHead) {
      const std::string& mean = model_.outputs->field(0).name;
      AddScaled(action, head == kNormalHead ? mean : graph_.Add("Tanh", {mean}));
      return absl::OkStatus();
    }
    return absl::UnimplementedError(
        absl::StrCat("found head '", head, "', which this format does not hold"));
  }

  void AddCategories(const FieldSpec& action, std::string scores) {
    if (model_.mask_field.has_value()) {
      const FieldSpec& mask = model_.observation->field(*model_.mask_field);
      const std::string flat = Reshape(mask.name, {-1, mask.num_elements()});
      const std::string legal = mask.dtype == DType::kBool ? flat : Cast(flat, Graph::kBool);
      const std::string lowest = graph_.Floats({std::numeric_limits<float>::lowest()}, {});
      scores = graph_.Add("Where", {legal, scores, lowest});
    }
    const std::vector<int64_t> counts = CategoryCounts(action);
    Graph::Names chosen;
    const Graph::Names parts =
        counts.size() == 1 ? Graph::Names{scores} : graph_.AddSplit(scores, counts);
    for (const std::string& part : parts) {
      chosen.push_back(
          graph_.Add("ArgMax", {part}, {Graph::Int("axis", 1), Graph::Int("keepdims", 1)}));
    }
    const std::string all =
        chosen.size() == 1 ? chosen[0] : graph_.Add("Concat", chosen, {Graph::Int("axis", 1)});
    graph_.AddOutput(kActionOutput, Graph::kInt64, action.shape);
    Reshape(all, RowsOf(action.shape), kActionOutput);
  }

  // low + (clip(x, -1, 1) + 1) / 2 * (high - low), in float64. Its rounding may pass the upper
  // bound, not the lower one.
  void AddScaled(const FieldSpec& action, const std::string& mean) {
    const auto [low, high, half] = BoundsOf(action);
    const std::vector<int64_t> shape = {action.num_elements()};
    const std::string flat = Reshape(mean, {-1, action.num_elements()});
    const std::string inside = Clip(Cast(flat, Graph::kDouble), -1, 1);
    const std::string from_low = graph_.Add("Add", {inside, graph_.Doubles({1}, {})});
    const std::string width = graph_.Add("Mul", {from_low, graph_.Doubles(half, shape)});
    const std::string scaled = graph_.Add(
        "Min",
        {graph_.Add("Add", {width, graph_.Doubles(low, shape)}), graph_.Doubles(high, shape)});
    graph_.AddOutput(kActionOutput, Graph::kFloat, action.shape);
    Reshape(Cast(scaled, Graph::kFloat), RowsOf(action.shape), kActionOutput);
  }

  const ActorModel& model_;
  Graph graph_;
};

absl::StatusOr<std::vector<ExportedFile>> ExportOnnx(const ActorModel& model) {
  DING_ASSIGN_OR_RETURN(std::string bytes, OnnxExporter(model).Export());
  return std::vector<ExportedFile>{{"policy.onnx", std::move(bytes)}};
}

DING_REGISTER(ExporterRegistry(), "onnx", ExportOnnx, "policy.onnx, for any runtime of ONNX");

}  // namespace
}  // namespace ding
