// Registers export format "c": a header and a source in C99, without a heap, libraries or headers
// of the system.
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
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

namespace ding {
namespace {

using DistributionKind = ActorDescription::Distribution::Kind;

constexpr char kMultiply[] = R"(
/* y = weight x, added to y if add, else to bias. */
static void multiply(const float *weight, const float *bias, int add, const float *x, float *y,
                     int out, int in) {
  int o, i;
  for (o = 0; o < out; ++o) {
    float sum = add ? y[o] : bias[o];
    for (i = 0; i < in; ++i) sum += weight[o * in + i] * x[i];
    y[o] = sum;
  }
}
)";

constexpr char kRelu[] = R"(
static void activate(float *x, int size) {
  int i;
  for (i = 0; i < size; ++i) x[i] = x[i] < 0 ? 0 : x[i];
}
)";

// The approximation of policy/mlp/vector_types.h.
constexpr char kTanh[] = R"(
/* Within 3e-7 of tanh. */
static float tanh_of(float x) {
  float x2, p, q;
  x = x > 7.90531110763549805f ? 7.90531110763549805f : x;
  x = x < -7.90531110763549805f ? -7.90531110763549805f : x;
  x2 = x * x;
  p = -2.76076847742355e-16f;
  p = p * x2 + 2.00018790482477e-13f;
  p = p * x2 + -8.60467152213735e-11f;
  p = p * x2 + 5.12229709037114e-08f;
  p = p * x2 + 1.48572235717979e-05f;
  p = p * x2 + 6.37261928875436e-04f;
  p = p * x2 + 4.89352455891786e-03f;
  q = 1.19825839466702e-06f;
  q = q * x2 + 1.18534705686654e-04f;
  q = q * x2 + 2.26843463243900e-03f;
  q = q * x2 + 4.89352518554385e-03f;
  return x * p / q;
}
)";

constexpr char kActivateTanh[] = R"(
static void activate(float *x, int size) {
  int i;
  for (i = 0; i < size; ++i) x[i] = tanh_of(x[i]);
}
)";

constexpr char kSigmoid[] = R"(
static float sigmoid(float x) { return 0.5f * tanh_of(0.5f * x) + 0.5f; }
)";

// exp(x) = 2^k e^f, with |f| at most ln(2) / 2 and a Taylor series for e^f.
constexpr char kExp[] = R"(
/* exp(x) for x at most 0, within 1e-7. */
static float exp_of(float x) {
  const double y = (double)x * 1.4426950408889634;
  double f, sum = 1, term = 1;
  int i, k;
  if (y < -140.0) return 0;
  k = (int)(y - 0.5);
  f = (y - k) * 0.6931471805599453;
  for (i = 1; i < 12; ++i) {
    term *= f / i;
    sum += term;
  }
  for (; k <= -16; k += 16) sum *= 1.0 / 65536;
  for (; k < 0; ++k) sum *= 0.5;
  return (float)sum;
}
)";

// Parameters: A, N, the name of the logits, v_min, the step between atoms, the name of the output.
constexpr char kAtoms[] = R"(  for (i = 0; i < %1$d; ++i) {
    const float *logit = %3$s + i * %2$d;
    float largest = logit[0], sum = 0, mean = 0;
    int k;
    for (k = 1; k < %2$d; ++k) largest = logit[k] > largest ? logit[k] : largest;
    for (k = 0; k < %2$d; ++k) {
      const float weight = exp_of(logit[k] - largest);
      sum += weight;
      mean += weight * (%4$s + %5$s * (float)k);
    }
    out_%6$s[i] = mean / sum;
  }
)";

constexpr char kLstm[] = R"(    for (i = 0; i < %1$d; ++i) {
      const float in = sigmoid(gates[i]);
      const float forget = sigmoid(gates[%1$d + i]);
      const float out = sigmoid(gates[3 * %1$d + i]);
      state[%1$d + i] = forget * state[%1$d + i] + in * tanh_of(gates[2 * %1$d + i]);
      state[i] = out * tanh_of(state[%1$d + i]);
    }
)";

constexpr char kGru[] = R"(    for (i = 0; i < %1$d; ++i) {
      const float reset = sigmoid(gates[i] + products[i]);
      const float keep = sigmoid(gates[%1$d + i] + products[%1$d + i]);
      const float candidate = tanh_of(gates[2 * %1$d + i] + reset * products[2 * %1$d + i]);
      state[i] = (1 - keep) * candidate + keep * state[i];
    }
)";

class CExporter {
 public:
  explicit CExporter(const ActorModel& model) : model_(model) {}

  absl::StatusOr<std::vector<ExportedFile>> Export() {
    for (const std::vector<ModelConvolution>& layers : model_.convolutions) {
      if (layers.empty()) continue;
      return absl::UnimplementedError(absl::StrCat(
          "layer '", layers[0].layer.name,
          "' is a convolution, which C source cannot hold; use format onnx or torchscript"));
    }
    const std::string& head = model_.description.head;
    const bool squashed =
        head == kTanhHead || head == kTanhNormalHead || head == kSquashedNormalHead;
    if (head != kQHead && head != kQDistributionHead && head != kCategoricalHead &&
        head != kNormalHead && !squashed) {
      return absl::UnimplementedError(
          absl::StrCat("found head '", head, "', which this format does not hold"));
    }
    uses_tanh_ = squashed;
    for (int i = 0; i < model_.observation->size(); ++i) {
      names_.push_back(Identifier(model_.observation->field(i).name, i));
    }
    AddFeatures();
    std::string x = "features";
    for (const ModelLayer& layer : model_.encoder) x = AddLayer(layer, x);
    if (model_.cell.has_value()) x = AddCell(*model_.cell, x);
    for (const ModelHead& output : model_.heads) {
      if (!model_.fraction_features.empty()) {
        AddFractions(output, x);
      } else {
        AddHead(output, x);
      }
    }
    if (head == kNormalHead || squashed) {
      AddScaled(squashed);
    } else {
      AddCategories();
    }
    return std::vector<ExportedFile>{{"policy.h", Header()}, {"policy.c", Source()}};
  }

 private:
  // The name of a parameter of policy_act(). No other one begins with "in_".
  static std::string Identifier(const std::string& field, int index) {
    std::string name = "in_";
    for (const char c : field) {
      name.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
    }
    return index == 0 ? name : absl::StrCat(name, "_", index);
  }

  // A number of C needs a point or an exponent before the suffix.
  template <typename T>
  static std::string Number(T value) {
    constexpr bool is_float = std::is_same_v<T, float>;
    std::string number =
        is_float ? absl::StrFormat("%.9g", value) : absl::StrFormat("%.17g", value);
    if (number.find_first_of(".e") == std::string::npos) number += ".0";
    return is_float ? number + "f" : number;
  }

  template <typename T>
  std::string AddConstants(absl::string_view type, absl::Span<const T> values) {
    const std::string name = absl::StrCat("c", constant_count_++);
    absl::StrAppendFormat(&constants_, "static const %s %s[%d] = {", type, name, values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      absl::StrAppend(&constants_, i % 8 == 0 ? "\n    " : " ", Number(values[i]), ",");
    }
    constants_ += "\n};\n";
    return name;
  }

  void AddFeatures() {
    int64_t offset = 0;
    size_t input = 0;
    for (int i = 0; i < model_.observation->size(); ++i) {
      if (model_.mask_field == i) continue;
      const int64_t width = model_.observation->field(i).num_elements();
      const std::string& name = names_[static_cast<size_t>(i)];
      if (model_.normalizers.empty()) {
        absl::StrAppendFormat(&body_, "  for (i = 0; i < %d; ++i) features[%d + i] = %s[i];\n",
                              width, offset, name);
      } else {
        AddNormalized(model_.normalizers[input], name, offset);
      }
      offset += width;
      ++input;
    }
    declarations_ = absl::StrFormat("  float features[%d];\n", offset);
  }

  void AddNormalized(const RunningNormalizer& normalizer, const std::string& name, int64_t offset) {
    const std::string mean = AddConstants("double", normalizer.mean());
    const std::string scale = AddConstants("double", normalizer.scale());
    absl::StrAppendFormat(&body_,
                          "  for (i = 0; i < %1$d; ++i) {\n"
                          "    double x = ((double)%2$s[i] - %3$s[i]) * %4$s[i];\n"
                          "    x = x < -%5$.17g ? -%5$.17g : x;\n"
                          "    features[%6$d + i] = (float)(x > %5$.17g ? %5$.17g : x);\n  }\n",
                          normalizer.width(), name, mean, scale, *model_.description.obs_clip,
                          offset);
  }

  std::string AddLayer(const ModelLayer& layer, const std::string& x) {
    const std::string weight = AddConstants<float>("float", layer.weight);
    const std::string bias = AddConstants<float>("float", layer.bias);
    const std::string y = absl::StrCat("y", layer_count_++);
    absl::StrAppendFormat(&declarations_, "  float %s[%d];\n", y, layer.out);
    absl::StrAppendFormat(&body_, "  multiply(%s, %s, 0, %s, %s, %d, %d); /* %s */\n", weight, bias,
                          x, y, layer.out, layer.in, layer.name);
    if (layer.hidden) {
      uses_activation_ = true;
      absl::StrAppendFormat(&body_, "  activate(%s, %d);\n", y, layer.out);
    }
    return y;
  }

  std::string AddCell(const ModelCell& cell, const std::string& x) {
    const int64_t rows = cell.gates() * cell.hidden;
    const std::string weight_ih = AddConstants<float>("float", cell.weight_ih);
    const std::string weight_hh = AddConstants<float>("float", cell.weight_hh);
    const std::string bias = AddConstants<float>("float", cell.bias);
    absl::StrAppendFormat(&body_, "  {\n    float gates[%d];\n", rows);
    const bool lstm = cell.cell == RnnCell::kLstm;
    if (!lstm) absl::StrAppendFormat(&body_, "    float products[%d];\n", rows);
    absl::StrAppendFormat(&body_, "    multiply(%s, %s, 0, %s, gates, %d, %d); /* rnn */\n",
                          weight_ih, bias, x, rows, cell.in);
    if (lstm) {
      absl::StrAppendFormat(&body_, "    multiply(%s, %s, 1, state, gates, %d, %d);\n", weight_hh,
                            bias, rows, cell.hidden);
      absl::StrAppendFormat(&body_, kLstm, cell.hidden);
    } else {
      const std::string bias_hh = AddConstants<float>("float", cell.bias_hh);
      absl::StrAppendFormat(&body_, "    multiply(%s, %s, 0, state, products, %d, %d);\n",
                            weight_hh, bias_hh, rows, cell.hidden);
      absl::StrAppendFormat(&body_, kGru, cell.hidden);
    }
    body_ += "  }\n";
    return "state";
  }

  // Returns the name of the outputs of the head [A, N], where N is 1 unless they are logits of
  // atoms.
  std::string AddOutputs(const ModelHead& head, const std::string& x) {
    std::string y = x;
    for (const ModelLayer& layer : head.layers) y = AddLayer(layer, y);
    if (head.value.empty()) return y;
    std::string value = x;
    for (const ModelLayer& layer : head.value) value = AddLayer(layer, value);
    const int64_t per_action = head.per_action();
    absl::StrAppendFormat(&body_,
                          "  for (i = 0; i < %3$d; ++i) {\n"
                          "    float sum = 0;\n    int k;\n"
                          "    for (k = i; k < %1$d; k += %3$d) sum += %2$s[k];\n"
                          "    sum = %4$s[i] - sum / %5$d;\n"
                          "    for (k = i; k < %1$d; k += %3$d) %2$s[k] += sum;\n  }\n",
                          head.width(), y, per_action, value, head.width() / per_action);
    return y;
  }

  void AddHead(const ModelHead& head, const std::string& x) {
    const std::string y = AddOutputs(head, x);
    if (!model_.description.IsDistributionOf(DistributionKind::kAtoms)) {
      absl::StrAppendFormat(&body_, "  for (i = 0; i < %d; ++i) out_%s[i] = %s[i];\n", head.width(),
                            head.name, y);
      return;
    }
    const ActorDescription::Distribution& distribution = *model_.description.distribution;
    const double step =
        (distribution.v_max - distribution.v_min) / static_cast<double>(distribution.size - 1);
    absl::StrAppendFormat(&body_, kAtoms, head.width() / distribution.size, distribution.size, y,
                          Number(static_cast<float>(distribution.v_min)),
                          Number(static_cast<float>(step)), head.name);
  }

  // The mean of the head's outputs over the fractions.
  void AddFractions(const ModelHead& head, const std::string& x) {
    const int64_t width = model_.encoder.back().out;
    const int64_t size = model_.description.distribution->size;
    const std::string features = AddConstants<float>("float", model_.fraction_features);
    absl::StrAppendFormat(&declarations_, "  float product[%d];\n  int n;\n", width);
    absl::StrAppendFormat(
        &body_,
        "  for (i = 0; i < %1$d; ++i) out_%2$s[i] = 0;\n"
        "  for (n = 0; n < %3$d; ++n) {\n"
        "  for (i = 0; i < %4$d; ++i) product[i] = %5$s[i] * %6$s[n * %4$d + i];\n",
        head.width(), head.name, size, width, x, features);
    const std::string y = AddOutputs(head, "product");
    absl::StrAppendFormat(&body_,
                          "  for (i = 0; i < %1$d; ++i) out_%2$s[i] += %3$s[i] / %4$d;\n  }\n",
                          head.width(), head.name, y, size);
  }

  void AddCategories() {
    int64_t begin = 0;
    int element = 0;
    for (const int64_t count : CategoryCounts(model_.action->field(0))) {
      const std::string best = absl::StrCat("action[", element++, "]");
      const std::string mask =
          model_.mask_field.has_value() ? names_[static_cast<size_t>(*model_.mask_field)] : "";
      absl::StrAppendFormat(&body_, "  %s = -1;\n  for (i = 0; i < %d; ++i) {\n", best, count);
      if (!mask.empty()) {
        absl::StrAppendFormat(&body_, "    if (!%s[%d + i]) continue;\n", mask, begin);
      }
      absl::StrAppendFormat(
          &body_, "    if (%1$s < 0 || %3$s[%2$d + i] > %3$s[%2$d + %1$s]) %1$s = i;\n  }\n", best,
          begin, absl::StrCat("out_", model_.heads[0].name));
      begin += count;
    }
  }

  void AddScaled(bool squashed) {
    const FieldSpec& action = model_.action->field(0);
    const auto [low, high, half] = BoundsOf(action);
    const std::string lows = AddConstants<double>("double", low);
    const std::string highs = AddConstants<double>("double", high);
    const std::string halves = AddConstants<double>("double", half);
    absl::StrAppendFormat(&body_,
                          "  for (i = 0; i < %1$d; ++i) {\n"
                          "    double x = %4$s;\n"
                          "    x = x < -1 ? -1 : x;\n"
                          "    x = x > 1 ? 1 : x;\n"
                          "    x = %2$s[i] + %3$s[i] * (x + 1);\n"
                          "    action[i] = (float)(x > %5$s[i] ? %5$s[i] : x);\n  }\n",
                          action.num_elements(), lows, halves,
                          squashed ? "(double)tanh_of(out_mean[i])" : "(double)out_mean[i]", highs);
  }

  std::string Signature() const {
    std::vector<std::string> parameters;
    for (size_t i = 0; i < names_.size(); ++i) {
      const FieldSpec& field = model_.observation->field(static_cast<int>(i));
      parameters.push_back(absl::StrFormat(
          "const %s %s[%d]", field.dtype == DType::kFloat32 ? "float" : "unsigned char", names_[i],
          field.num_elements()));
    }
    if (model_.cell.has_value()) {
      parameters.push_back(absl::StrFormat("float state[%d]", model_.state_size()));
    }
    for (const ModelHead& head : model_.heads) {
      const int64_t width = model_.outputs->field(0).num_elements();  // equal for all
      parameters.push_back(absl::StrFormat("float out_%s[%d]", head.name, width));
    }
    const FieldSpec& action = model_.action->field(0);
    parameters.push_back(absl::StrFormat("%s action[%d]", action.is_discrete() ? "int" : "float",
                                         action.num_elements()));
    return absl::StrCat("void policy_act(", absl::StrJoin(parameters, ",\n                "), ")");
  }

  std::string Header() const {
    std::string text =
        absl::StrCat("/* The policy of a checkpoint of ding_worker (", model_.description.policy,
                     ", env '", CommentText(model_.env),
                     "').\n *\n * policy_act() chooses the best action for one observation:\n");
    for (size_t i = 0; i < names_.size(); ++i) {
      absl::StrAppend(&text, " *   ", names_[i], "  field '",
                      CommentText(model_.observation->field(static_cast<int>(i)).name), "'",
                      model_.mask_field == static_cast<int>(i)
                          ? ": 1 for legal actions; without one, the action is -1"
                          : "",
                      "\n");
    }
    if (model_.cell.has_value()) {
      text += " *   state   the memory: 0 at the beginning of an episode; it is changed\n";
    }
    for (const ModelHead& head : model_.heads) {
      absl::StrAppend(&text, " *   out_", head.name, "  what the network computes",
                      model_.mask_field.has_value() ? ", for illegal actions, too" : "", "\n");
    }
    absl::StrAppend(&text,
                    " *   action  the result\n * It allocates nothing, and may be called by "
                    "several threads at once. */\n"
                    "#ifndef POLICY_H_\n#define POLICY_H_\n\n"
                    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                    Signature(), ";\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    return text;
  }

  // The text without what would end a comment.
  static std::string CommentText(const std::string& text) {
    std::string safe;
    for (const char c : text) {
      const bool plain =
          absl::ascii_isprint(static_cast<unsigned char>(c)) && c != '*' && c != '\\' && c != '?';
      safe.push_back(plain ? c : '_');
    }
    return safe;
  }

  std::string Source() const {
    const bool tanh = (uses_activation_ && model_.tanh()) || model_.cell.has_value() || uses_tanh_;
    std::string text = absl::StrCat("#include \"policy.h\"\n\n", constants_, kMultiply);
    if (tanh) text += kTanh;
    if (uses_activation_) text += model_.tanh() ? kActivateTanh : kRelu;
    if (model_.cell.has_value()) text += kSigmoid;
    if (model_.description.IsDistributionOf(DistributionKind::kAtoms)) text += kExp;
    absl::StrAppend(&text, "\n", Signature(), " {\n  int i;\n", declarations_, body_, "}\n");
    return text;
  }

  const ActorModel& model_;
  std::vector<std::string> names_;  // of the fields of the observation
  int constant_count_ = 0;
  int layer_count_ = 0;
  bool uses_activation_ = false;
  bool uses_tanh_ = false;  // in the head
  std::string constants_;
  std::string declarations_;
  std::string body_;
};

absl::StatusOr<std::vector<ExportedFile>> ExportC(const ActorModel& model) {
  return CExporter(model).Export();
}

DING_REGISTER(ExporterRegistry(), "c", ExportC, "policy.h and policy.c, C99 without dependencies");

}  // namespace
}  // namespace ding
