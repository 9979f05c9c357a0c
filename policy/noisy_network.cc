#include "ding_worker/policy/noisy_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr absl::string_view kWeight = "/weight";
constexpr absl::string_view kBias = "/bias";
constexpr char kDeviation[] = "_deviation";

// Whether the parameter `name` belongs to a head.
bool IsOfHead(absl::string_view name, const Spec& output) {
  return absl::c_any_of(output.fields(), [&](const FieldSpec& field) {
    return absl::StartsWith(name, absl::StrCat(field.name, "/"));
  });
}

float DrawFactor(Rng* rng) {
  const double normal = rng->Normal();
  return static_cast<float>(std::copysign(std::sqrt(std::abs(normal)), normal));
}

}  // namespace

std::vector<NoisyNetwork::Layer> NoisyNetwork::FindLayers(const Network& inner) {
  const absl::Span<const ParameterInfo> parameters = inner.parameter_info();
  auto end = static_cast<int64_t>(inner.parameters().size());
  std::vector<Layer> layers;
  for (size_t i = 0; i + 1 < parameters.size(); ++i) {
    const ParameterInfo& weight = parameters[i];
    const ParameterInfo& bias = parameters[i + 1];
    if (!IsOfHead(weight.name, *inner.output_spec()) || !absl::EndsWith(weight.name, kWeight) ||
        !absl::EndsWith(bias.name, kBias) || weight.shape.size() != 2 ||
        bias.shape != Shape{weight.shape[0]}) {
      continue;
    }
    Layer layer;
    layer.name = std::string(absl::StripSuffix(weight.name, kWeight));
    layer.out = weight.shape[0];
    layer.in = weight.shape[1];
    layer.weight = weight.offset;
    layer.bias = bias.offset;
    layer.weight_deviation = end;
    layer.bias_deviation = end + layer.out * layer.in;
    layer.noise_in.resize(static_cast<size_t>(layer.in));
    layer.noise_out.resize(static_cast<size_t>(layer.out));
    end = layer.bias_deviation + layer.out;
    layers.push_back(std::move(layer));
  }
  return layers;
}

absl::StatusOr<std::unique_ptr<NoisyNetwork>> NoisyNetwork::Create(std::unique_ptr<Network> inner,
                                                                   double deviation) {
  if (!(deviation > 0 && std::isfinite(deviation))) {
    return absl::InvalidArgumentError(
        absl::StrCat("noisy layers: the deviation is ", deviation, ", must be finite and above 0"));
  }
  std::vector<Layer> layers = FindLayers(*inner);
  if (layers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "noisy layers: ", inner->info(), " has no parameters '",
        inner->output_spec()->field(0).name, "/.../weight' and '.../bias' of a linear head"));
  }
  auto noisy = absl::WrapUnique(new NoisyNetwork(std::move(inner), std::move(layers)));
  const absl::Span<float> parameters = noisy->parameters();
  absl::c_copy(std::as_const(*noisy->inner_).parameters(), parameters.begin());
  for (const Layer& layer : noisy->layers_) {
    const double begin = deviation / std::sqrt(static_cast<double>(layer.in));
    std::fill_n(parameters.begin() + layer.weight_deviation, layer.out * (layer.in + 1),
                static_cast<float>(begin));
  }
  return noisy;
}

NoisyNetwork::NoisyNetwork(std::unique_ptr<Network> inner, std::vector<Layer> layers)
    : inner_(std::move(inner)),
      layers_(std::move(layers)),
      info_(inner_->parameter_info().begin(), inner_->parameter_info().end()) {
  for (const Layer& layer : layers_) {
    info_.push_back({absl::StrCat(layer.name, kWeight, kDeviation),
                     {layer.out, layer.in},
                     layer.weight_deviation});
    info_.push_back(
        {absl::StrCat(layer.name, kBias, kDeviation), {layer.out}, layer.bias_deviation});
  }
  const Layer& last = layers_.back();
  parameters_ = Tensor::Zeros(DType::kFloat32, {last.bias_deviation + last.out});
  gradients_ = Tensor::Zeros(DType::kFloat32, {last.bias_deviation + last.out});
}

void NoisyNetwork::Draw(Rng* rng) {
  for (Layer& layer : layers_) {
    for (float& factor : layer.noise_in) factor = DrawFactor(rng);
    for (float& factor : layer.noise_out) factor = DrawFactor(rng);
  }
}

void NoisyNetwork::UseMeans() {
  for (Layer& layer : layers_) {
    absl::c_fill(layer.noise_in, 0.0f);
    absl::c_fill(layer.noise_out, 0.0f);
  }
}

void NoisyNetwork::Apply() {
  const float* const from = parameters().data();
  const absl::Span<float> to = inner_->parameters();
  std::copy_n(from, to.size(), to.begin());
  for (const Layer& layer : layers_) {
    for (int64_t o = 0; o < layer.out; ++o) {
      const float factor = layer.noise_out[o];
      const float* __restrict const deviation = from + layer.weight_deviation + o * layer.in;
      const float* __restrict const noise = layer.noise_in.data();
      float* __restrict const weight = to.data() + layer.weight + o * layer.in;
      for (int64_t i = 0; i < layer.in; ++i) weight[i] += deviation[i] * (factor * noise[i]);
      to[layer.bias + o] += from[layer.bias_deviation + o] * factor;
    }
  }
}

absl::Status NoisyNetwork::Infer(const ColumnsView& input, const MutableColumnsView& output) {
  Apply();
  return inner_->Infer(input, output);
}

absl::Status NoisyNetwork::Forward(const ColumnsView& input, const MutableColumnsView& output) {
  Apply();
  return inner_->Forward(input, output);
}

absl::Status NoisyNetwork::Backward(const ColumnsView& d_output) {
  DING_RETURN_IF_ERROR(inner_->Backward(d_output));
  const absl::Span<const float> from = inner_->gradients();
  float* const to = gradients().data();
  std::copy_n(from.begin(), from.size(), to);
  for (const Layer& layer : layers_) {
    for (int64_t o = 0; o < layer.out; ++o) {
      const float factor = layer.noise_out[o];
      const float* __restrict const d_weight = from.data() + layer.weight + o * layer.in;
      const float* __restrict const noise = layer.noise_in.data();
      float* __restrict const d_deviation = to + layer.weight_deviation + o * layer.in;
      for (int64_t i = 0; i < layer.in; ++i) d_deviation[i] = d_weight[i] * (factor * noise[i]);
      to[layer.bias_deviation + o] = from[layer.bias + o] * factor;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Network>> NoisyNetwork::Clone() const {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> inner, inner_->Clone());
  auto clone = absl::WrapUnique(new NoisyNetwork(std::move(inner), layers_));
  absl::c_copy(parameters(), clone->parameters().begin());
  return std::unique_ptr<Network>(std::move(clone));
}

std::string NoisyNetwork::info() const {
  return absl::StrCat("noisy ", inner_->info(), " with ", layers_.size(),
                      " noisy layers: ", parameters().size(), " parameters in all");
}

}  // namespace ding
