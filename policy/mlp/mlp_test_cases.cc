#include "ding_worker/policy/mlp/mlp_test_cases.h"

#include <cstdint>
#include <utility>

#include "ding_worker/data/dtype.h"

namespace ding {
namespace {

MlpOptions MakeOptions(std::vector<int64_t> encoder, int64_t head_layers, int64_t head_width,
                       bool dueling, MlpOptions::Activation activation) {
  MlpOptions options;
  options.encoder_hidden_size = std::move(encoder);
  options.head_layer_num = head_layers;
  options.head_hidden_size = head_width;
  options.dueling = dueling;
  options.activation = activation;
  return options;
}

}  // namespace

std::vector<MlpTestCase> MlpTestCases() {
  constexpr auto kRelu = MlpOptions::Activation::kRelu;
  constexpr auto kTanh = MlpOptions::Activation::kTanh;
  return {
      {"Linear", MakeOptions({}, 0, 0, false, kRelu), {Box("obs", {3})}, {Box("q", {2})}},
      {"Relu", MakeOptions({17, 9}, 1, 0, false, kRelu), {Box("obs", {4})}, {Box("q", {3})}},
      {"Tanh", MakeOptions({12}, 2, 5, false, kTanh), {Box("obs", {5})}, {Box("q", {1})}},
      {"DuelingRelu", MakeOptions({16, 8}, 1, 0, true, kRelu), {Box("obs", {4})}, {Box("q", {2})}},
      {"DuelingTanh", MakeOptions({20}, 0, 0, true, kTanh), {Box("obs", {8})}, {Box("q", {6})}},
      {"TwoHeads",
       MakeOptions({24}, 1, 10, false, kRelu),
       {Box("obs", {6})},
       {Box("logit", {2, 2}), Scalar("value", DType::kFloat32)}},
      {"TwoDuelingHeads",
       MakeOptions({10}, 1, 0, true, kTanh),
       {Box("obs", {6})},
       {Box("q/left", {2}), Box("q/right", {3})}},
      {"HeadsOnTheInput",
       MakeOptions({}, 1, 18, false, kTanh),
       {Box("obs/a", {2, 3}), Box("obs/b", {}), Box("obs/c", {12})},
       {Box("logit", {5}), Scalar("value", DType::kFloat32)}},
  };
}

}  // namespace ding
