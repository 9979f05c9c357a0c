#include "ding_worker/policy/mlp/mlp_structure.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr int64_t kMaxHeadLayers = 64;

// 33923 -> "33,923".
std::string WithThousands(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

void CheckWidth(absl::string_view what, int64_t width, std::vector<std::string>* problems) {
  if (width >= 1 && width <= kMaxLayerWidth) return;
  problems->push_back(absl::StrCat(what, " is ", width, "; it must be in 1..", kMaxLayerWidth));
}

void CheckOptions(const MlpOptions& options, std::vector<std::string>* problems) {
  for (size_t i = 0; i < options.encoder_hidden_size.size(); ++i) {
    CheckWidth(absl::StrCat("encoder_hidden_size[", i, "]"), options.encoder_hidden_size[i],
               problems);
  }
  if (options.head_layer_num < 0 || options.head_layer_num > kMaxHeadLayers) {
    problems->push_back(absl::StrCat("head_layer_num is ", options.head_layer_num,
                                     "; it must be in 0..", kMaxHeadLayers));
  }
  if (options.head_hidden_size != 0) {
    CheckWidth("head_hidden_size", options.head_hidden_size, problems);
  } else if (options.head_layer_num > 0 && options.encoder_hidden_size.empty()) {
    problems->push_back(
        "head_hidden_size is 0 (the width of the last encoder layer), but encoder_hidden_size is "
        "empty");
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    problems->push_back(absl::StrCat("dropout is ", options.dropout, "; it must be in [0, 1)"));
  }
}

// Names the env wrapper that makes the field float32.
std::string HowToMakeFloat32(const FieldSpec& field) {
  if (field.is_discrete()) {
    return absl::StrCat("encode it by the env wrapper 'one_hot', with field: '", field.name,
                        "' or, for all fields of categories, without params");
  }
  return "convert it by the env wrapper 'flatten', which makes one vector of all fields, or use a "
         "network of another type";
}

void CheckFields(const MlpOptions& options, const Spec& input, const Spec& output,
                 std::vector<std::string>* problems) {
  if (input.size() == 0) problems->push_back("there is no input field");
  if (output.size() == 0) problems->push_back("there is no output field");
  for (const FieldSpec& field : input.fields()) {
    if (field.dtype != DType::kFloat32) {
      problems->push_back(absl::StrCat("input '", field.name, "' is ", field.DebugString(),
                                       "; an MLP reads float32 only: ", HowToMakeFloat32(field)));
    }
  }
  for (const FieldSpec& field : output.fields()) {
    if (field.dtype != DType::kFloat32) {
      problems->push_back(absl::StrCat("output '", field.name, "' is ", field.DebugString(),
                                       "; an MLP writes float32 only"));
    }
    if (options.dueling && (field.shape.empty() || field.shape[0] < 2)) {
      problems->push_back(absl::StrCat("output '", field.name, "' is ", field.DebugString(),
                                       "; a dueling head needs a first dimension of at least 2 "
                                       "actions"));
    }
  }
}

int64_t RowWidth(const Spec& spec) {
  int64_t width = 0;
  for (const FieldSpec& field : spec.fields()) width += field.num_elements();
  return width;
}

class Builder {
 public:
  explicit Builder(MlpStructure* structure) : structure_(structure) {}

  // Adds layers of `widths` on top of layer `source`; returns the index of the last one.
  // `last_hidden`: the last one also has an activation.
  int AddChain(absl::string_view name, int source, absl::Span<const int64_t> widths,
               bool last_hidden) {
    for (size_t i = 0; i < widths.size(); ++i) {
      source = AddLayer(absl::StrCat(name, "/", i), source, widths[i],
                        last_hidden || i + 1 < widths.size());
    }
    return source;
  }

 private:
  int AddLayer(std::string name, int source, int64_t width, bool hidden) {
    MlpLayer layer;
    layer.in = source < 0 ? structure_->input_width : structure_->layers[source].out;
    layer.out = width;
    layer.hidden = hidden;
    layer.source = source;
    layer.weight_offset = AddParameter(absl::StrCat(name, "/weight"), {layer.out, layer.in});
    layer.bias_offset = AddParameter(absl::StrCat(name, "/bias"), {layer.out});
    if (hidden && structure_->options.layer_norm) {
      layer.norm_weight_offset = AddParameter(absl::StrCat(name, "/norm/weight"), {layer.out});
      layer.norm_bias_offset = AddParameter(absl::StrCat(name, "/norm/bias"), {layer.out});
    }
    layer.name = std::move(name);
    structure_->layers.push_back(std::move(layer));
    return static_cast<int>(structure_->layers.size()) - 1;
  }

  int64_t AddParameter(std::string name, Shape shape) {
    const int64_t offset = structure_->num_parameters;
    // A sum above every limit is enough, and so it cannot overflow.
    structure_->num_parameters =
        std::min(structure_->num_parameters, kMaxNetworkParameters + 1) + NumElements(shape);
    structure_->parameters.push_back({std::move(name), std::move(shape), offset});
    return offset;
  }

  MlpStructure* const structure_;
};

std::vector<int64_t> HeadWidths(const MlpOptions& options, int64_t outputs) {
  const int64_t hidden = options.head_hidden_size > 0 || options.encoder_hidden_size.empty()
                             ? options.head_hidden_size
                             : options.encoder_hidden_size.back();
  std::vector<int64_t> widths(options.head_layer_num, hidden);
  widths.push_back(outputs);
  return widths;
}

}  // namespace

std::string MlpStructure::Architecture() const {
  std::vector<int64_t> encoder = {input_width};
  encoder.insert(encoder.end(), options.encoder_hidden_size.begin(),
                 options.encoder_hidden_size.end());
  std::string text = absl::StrJoin(encoder, "-");
  if (options.activation == MlpOptions::Activation::kTanh) absl::StrAppend(&text, " tanh");
  if (options.dropout > 0) absl::StrAppend(&text, " dropout ", options.dropout);
  if (options.layer_norm) absl::StrAppend(&text, " layer norm");
  if (options.separate_encoders) absl::StrAppend(&text, " for each head");
  for (const FieldSpec& field : output->fields()) {
    absl::StrAppend(&text, ", ", options.dueling ? "dueling " : "", field.name, " ",
                    absl::StrJoin(HeadWidths(options, field.num_elements()), "-"));
  }
  return text;
}

std::string MlpStructure::DebugString() const {
  return absl::StrCat(Architecture(), ": ", WithThousands(num_parameters), " parameters");
}

absl::StatusOr<MlpStructure> MakeMlpStructure(const MlpOptions& options, SpecPtr input,
                                              SpecPtr output) {
  DING_CHECK(input != nullptr && output != nullptr) << "an MLP without specs";
  std::vector<std::string> problems;
  CheckOptions(options, &problems);
  CheckFields(options, *input, *output, &problems);
  CheckWidth("the number of input elements", RowWidth(*input), &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, "MLP"));
  MlpStructure structure;
  structure.options = options;
  structure.input_width = RowWidth(*input);
  Builder builder(&structure);
  const auto add_encoder = [&](absl::string_view name) {
    return builder.AddChain(name, -1, options.encoder_hidden_size, true);
  };
  const int shared = options.separate_encoders ? -1 : add_encoder("encoder");
  for (const FieldSpec& field : output->fields()) {
    const int encoder =
        options.separate_encoders ? add_encoder(absl::StrCat(field.name, "/encoder")) : shared;
    const std::vector<int64_t> widths = HeadWidths(options, field.num_elements());
    MlpHead head;
    if (options.dueling) {
      head.layer = builder.AddChain(absl::StrCat(field.name, "/advantage"), encoder, widths,
                                    options.output_activation);
      head.value = builder.AddChain(absl::StrCat(field.name, "/value"), encoder,
                                    HeadWidths(options, field.num_elements() / field.shape[0]),
                                    options.output_activation);
    } else {
      head.layer = builder.AddChain(field.name, encoder, widths, options.output_activation);
    }
    structure.heads.push_back(head);
  }
  if (structure.num_parameters > kMaxNetworkParameters) {
    return absl::InvalidArgumentError(absl::StrCat("MLP: ", structure.num_parameters,
                                                   " parameters; at most ", kMaxNetworkParameters,
                                                   " are supported"));
  }
  structure.input = std::move(input);
  structure.output = std::move(output);
  return structure;
}

absl::Status RefuseNormalization(const MlpOptions& options, absl::string_view network) {
  if (!options.layer_norm && options.dropout == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(network, " has no dropout or layer normalization, but dropout is ",
                   options.dropout, " and layer_norm is ", options.layer_norm ? "true" : "false",
                   "; expected 0 and false, or the network 'mlp'"));
}

void InitializeMlpParameters(const MlpStructure& structure, uint64_t seed,
                             absl::Span<float> parameters) {
  Rng rng(seed, "policy/init");
  InitializeMlpParameters(structure, &rng, parameters);
}

void InitializeMlpParameters(const MlpStructure& structure, Rng* rng,
                             absl::Span<float> parameters) {
  for (const MlpLayer& layer : structure.layers) {
    InitializeUniformly(layer.in, rng,
                        parameters.subspan(layer.weight_offset, layer.out * layer.in));
    InitializeUniformly(layer.in, rng, parameters.subspan(layer.bias_offset, layer.out));
    if (layer.norm_weight_offset < 0) continue;
    std::fill_n(parameters.begin() + layer.norm_weight_offset, layer.out, 1.0f);
    std::fill_n(parameters.begin() + layer.norm_bias_offset, layer.out, 0.0f);
  }
}

void InitializeUniformly(int64_t fan_in, Rng* rng, absl::Span<float> values) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  for (float& value : values) value = static_cast<float>(rng->Uniform(-bound, bound));
}

}  // namespace ding
