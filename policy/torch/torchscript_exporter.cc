// Registers export format "torchscript": policy.pt, a module from a dict of tensors by name to
// another one.
//
//     module = torch.jit.load("policy.pt")
//     outputs = module({"obs": torch.zeros(1, 4)})      # {"action": ..., "q": ...}
#include <algorithm>
#include <exception>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/actor_model.h"
#include "ding_worker/policy/export/exporter.h"
#include "torch/script.h"

namespace ding {
namespace {

using DistributionKind = ActorDescription::Distribution::Kind;
constexpr int kFloat32 = 6;  // torch.float32 in the text of a script
constexpr int kFloat64 = 7;

class TorchScriptExporter {
 public:
  explicit TorchScriptExporter(const ActorModel& model) : model_(model), module_("policy") {}

  absl::StatusOr<std::string> Export() {
    std::string x = AddInputs();
    for (const ModelLayer& layer : model_.encoder) x = AddLayer(layer, x);
    if (model_.cell.has_value()) x = AddCell(*model_.cell, x);
    if (!model_.fraction_features.empty()) {
      const int64_t size = model_.description.distribution->size;
      const std::string features =
          AddConstant<float>(model_.fraction_features, {1, size, model_.encoder.back().out});
      x = Add(absl::StrCat(x, ".unsqueeze(1) * ", features));  // [B, N, D]
    }
    for (size_t i = 0; i < model_.heads.size(); ++i) AddHead(static_cast<int>(i), x);
    DING_RETURN_IF_ERROR(AddAction());
    module_.define(
        absl::StrCat("def forward(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:\n",
                     "    outputs: Dict[str, Tensor] = {}\n", body_, "    return outputs\n"));
    std::ostringstream bytes;
    module_.save(bytes);
    return bytes.str();
  }

 private:
  // Adds the line "name = expression"; returns the name.
  std::string Add(const std::string& expression) {
    std::string name = absl::StrCat("x", names_++);
    absl::StrAppend(&body_, "    ", name, " = ", expression, "\n");
    return name;
  }
  void AddOutput(const std::string& name, const std::string& expression) {
    absl::StrAppend(&body_, "    outputs[", Quoted(name), "] = ", expression, "\n");
  }
  // The names of fields may have any characters.
  static std::string Quoted(const std::string& name) {
    std::string text = "\"";
    for (const char c : name) {
      if (c == '"' || c == '\\') text.push_back('\\');
      text.push_back(c);
    }
    return text + "\"";
  }
  template <typename T>
  std::string AddConstant(absl::Span<const T> values, const std::vector<int64_t>& shape) {
    const at::Tensor tensor = at::empty(shape, c10::CppTypeToScalarType<T>::value);
    std::copy(values.begin(), values.end(), tensor.data_ptr<T>());
    const std::string name = absl::StrCat("c", constants_++);
    module_.register_buffer(name, tensor);
    return absl::StrCat("self.", name);
  }
  std::string Activate(const std::string& x) const {
    return absl::StrCat(model_.tanh() ? "torch.tanh(" : "torch.relu(", x, ")");
  }
  static std::string RowsOf(const Shape& shape) {
    return absl::StrCat("[-1", shape.empty() ? "" : ", ", absl::StrJoin(shape, ", "), "]");
  }

  std::string AddInputs() {
    std::vector<std::string> features;
    for (size_t i = 0; i < model_.convolutions.size(); ++i) {
      const FieldSpec& field = model_.inputs->field(static_cast<int>(i));
      std::string x = Add(absl::StrCat("inputs[", Quoted(field.name), "]"));
      if (!model_.convolutions[i].empty()) {
        x = AddConvolutions(field, i, x);
        features.push_back(Add(absl::StrCat("torch.flatten(", x, ", 1)")));
        continue;
      }
      x = Add(absl::StrFormat("%s.reshape([-1, %d])", x, field.num_elements()));
      if (!model_.normalizers.empty()) x = Normalize(model_.normalizers[i], x);
      features.push_back(x);
    }
    if (features.size() == 1) return features[0];
    return Add(absl::StrCat("torch.cat([", absl::StrJoin(features, ", "), "], 1)"));
  }

  // In float64, as RunningNormalizer.
  std::string Normalize(const RunningNormalizer& normalizer, const std::string& x) {
    const std::string mean = AddConstant(normalizer.mean(), {normalizer.width()});
    const std::string scale = AddConstant(normalizer.scale(), {normalizer.width()});
    const double clip = *model_.description.obs_clip;
    return Add(absl::StrFormat("torch.clamp((%s.to(%d) - %s) * %s, %.17g, %.17g).to(%d)", x,
                               kFloat64, mean, scale, -clip, clip, kFloat32));
  }

  std::string AddConvolutions(const FieldSpec& field, size_t index, std::string x) {
    if (field.dtype == DType::kUint8) x = Add(absl::StrFormat("%s.to(%d) / 255.0", x, kFloat32));
    for (const ModelConvolution& convolution : model_.convolutions[index]) {
      const ConvOptions& options = convolution.layer.options;
      const std::string weight = AddConstant<float>(
          convolution.weight,
          {options.channels, convolution.layer.in[0], options.kernel, options.kernel});
      const std::string bias = AddConstant<float>(convolution.bias, {options.channels});
      x = Add(Activate(absl::StrFormat("torch.conv2d(%1$s, %2$s, %3$s, [%4$d, %4$d], [%5$d, %5$d])",
                                       x, weight, bias, options.stride, options.padding)));
    }
    return x;
  }

  std::string Linear(const std::string& x, const std::vector<float>& weight,
                     const std::vector<float>& bias, int64_t out, int64_t in) {
    const std::string w = AddConstant<float>(weight, {out, in});
    return absl::StrCat("torch.linear(", x, ", ", w, ", ", AddConstant<float>(bias, {out}), ")");
  }

  std::string AddLayer(const ModelLayer& layer, const std::string& x) {
    const std::string y = Linear(x, layer.weight, layer.bias, layer.out, layer.in);
    return Add(layer.hidden ? Activate(y) : y);
  }

  std::string AddCell(const ModelCell& cell, const std::string& x) {
    const int64_t rows = cell.gates() * cell.hidden;
    const std::string state = Add(absl::StrCat("inputs[", Quoted(kStateInput), "]"));
    const std::string hidden = Add(absl::StrCat(state, "[:, :", cell.hidden, "]"));
    const std::string a = Add(Linear(x, cell.weight_ih, cell.bias, rows, cell.in));
    const bool lstm = cell.cell == RnnCell::kLstm;
    const std::vector<float> bias_hh =
        lstm ? std::vector<float>(static_cast<size_t>(rows), 0.0f) : cell.bias_hh;
    const std::string b = Add(Linear(hidden, cell.weight_hh, bias_hh, rows, cell.hidden));
    const auto gate = [&](const std::string& values, int64_t index) {
      return absl::StrFormat("%s[:, %d:%d]", values, index * cell.hidden,
                             (index + 1) * cell.hidden);
    };
    if (!lstm) {
      const std::string reset = Add("torch.sigmoid(" + gate(a, 0) + " + " + gate(b, 0) + ")");
      const std::string keep = Add("torch.sigmoid(" + gate(a, 1) + " + " + gate(b, 1) + ")");
      const std::string candidate =
          Add("torch.tanh(" + gate(a, 2) + " + " + reset + " * " + gate(b, 2) + ")");
      const std::string next =
          Add("(1.0 - " + keep + ") * " + candidate + " + " + keep + " * " + hidden);
      AddOutput(kStateOutput, next);
      return next;
    }
    const std::string gates = Add(a + " + " + b);
    const std::string before = Add(absl::StrCat(state, "[:, ", cell.hidden, ":]"));
    const std::string after =
        Add("torch.sigmoid(" + gate(gates, 1) + ") * " + before + " + torch.sigmoid(" +
            gate(gates, 0) + ") * torch.tanh(" + gate(gates, 2) + ")");
    const std::string next =
        Add("torch.sigmoid(" + gate(gates, 3) + ") * torch.tanh(" + after + ")");
    AddOutput(kStateOutput, "torch.cat([" + next + ", " + after + "], 1)");
    return next;
  }

  void AddHead(int index, const std::string& x) {
    const ModelHead& head = model_.heads[static_cast<size_t>(index)];
    const bool atoms = model_.description.IsDistributionOf(DistributionKind::kAtoms);
    const int64_t size = atoms ? model_.description.distribution->size : 1;
    std::string y = x;
    for (const ModelLayer& layer : head.layers) y = AddLayer(layer, y);
    if (atoms) y = Add(absl::StrFormat("%s.reshape([-1, %d, %d])", y, head.width() / size, size));
    if (!head.value.empty()) {
      std::string value = x;
      for (const ModelLayer& layer : head.value) value = AddLayer(layer, value);
      if (atoms) value = Add(absl::StrCat(value, ".unsqueeze(1)"));
      const int64_t axis = model_.fraction_features.empty() ? 1 : 2;  // of the actions
      y = Add(absl::StrFormat("%1$s + %2$s - torch.mean(%1$s, [%3$d], True)", y, value, axis));
    }
    if (atoms) y = Add(absl::StrCat("torch.sum(torch.softmax(", y, ", 2) * ", Atoms(), ", [2])"));
    if (!model_.fraction_features.empty()) y = Add(absl::StrCat("torch.mean(", y, ", [1])"));
    if (index == 0) score_ = y;
    const FieldSpec& field = model_.outputs->field(index);
    AddOutput(field.name, absl::StrCat(y, ".reshape(", RowsOf(field.shape), ")"));
  }

  std::string Atoms() {
    const ActorDescription::Distribution& distribution = *model_.description.distribution;
    const double step =
        (distribution.v_max - distribution.v_min) / static_cast<double>(distribution.size - 1);
    std::vector<float> atoms;
    for (int64_t i = 0; i < distribution.size; ++i) {
      atoms.push_back(static_cast<float>(distribution.v_min + static_cast<double>(i) * step));
    }
    return AddConstant<float>(atoms, {distribution.size});
  }

  absl::Status AddAction() {
    const FieldSpec& action = model_.action->field(0);
    const std::string& head = model_.description.head;
    if (head == kQHead || head == kQDistributionHead || head == kCategoricalHead) {
      AddCategories(action);
    } else if (head == kNormalHead) {
      AddScaled(action, score_);
    } else if (head == kTanhHead || head == kTanhNormalHead || head == kSquashedNormalHead) {
      AddScaled(action, "torch.tanh(" + score_ + ")");
    } else {
      return absl::UnimplementedError(
          absl::StrCat("found head '", head, "', which this format does not hold"));
    }
    return absl::OkStatus();
  }

  void AddCategories(const FieldSpec& action) {
    std::string scores = score_;
    if (model_.mask_field.has_value()) {
      const FieldSpec& mask = model_.observation->field(*model_.mask_field);
      scores = Add(absl::StrFormat("%s.masked_fill(inputs[%s].reshape([-1, %d]) == 0, -3.4e38)",
                                   scores, Quoted(mask.name), mask.num_elements()));
    }
    std::vector<std::string> chosen;
    int64_t begin = 0;
    for (const int64_t count : CategoryCounts(action)) {
      chosen.push_back(
          absl::StrFormat("torch.argmax(%s[:, %d:%d], 1, True)", scores, begin, begin + count));
      begin += count;
    }
    AddOutput(kActionOutput, absl::StrCat("torch.cat([", absl::StrJoin(chosen, ", "),
                                          "], 1).reshape(", RowsOf(action.shape), ")"));
  }

  void AddScaled(const FieldSpec& action, const std::string& unit) {
    const auto [low, high, half] = BoundsOf(action);
    const std::string lows = AddConstant<double>(low, {action.num_elements()});
    const std::string highs = AddConstant<double>(high, {action.num_elements()});
    const std::string halves = AddConstant<double>(half, {action.num_elements()});
    AddOutput(kActionOutput,
              absl::StrFormat("torch.minimum(%s + (torch.clamp(%s.to(%d), -1.0, 1.0) + 1.0) * %s, "
                              "%s).to(%d).reshape(%s)",
                              lows, unit, kFloat64, halves, highs, kFloat32, RowsOf(action.shape)));
  }

  const ActorModel& model_;
  torch::jit::Module module_;
  std::string body_;
  std::string score_;  // what the action is chosen by
  int names_ = 0;
  int constants_ = 0;
};

absl::StatusOr<std::vector<ExportedFile>> ExportTorchScript(const ActorModel& model) {
  try {
    DING_ASSIGN_OR_RETURN(std::string bytes, TorchScriptExporter(model).Export());
    return std::vector<ExportedFile>{{"policy.pt", std::move(bytes)}};
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("libtorch: ", error.what()));
  }
}

DING_REGISTER(ExporterRegistry(), "torchscript", ExportTorchScript,
              "policy.pt, for libtorch and Python's torch");

}  // namespace
}  // namespace ding
