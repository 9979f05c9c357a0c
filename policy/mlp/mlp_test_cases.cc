#include "ding_worker/policy/mlp/mlp_test_cases.h"

#include <utility>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

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
  MlpOptions features = MakeOptions({7}, 0, 0, false, MlpOptions::Activation::kTanh);
  features.output_activation = true;
  MlpOptions apart = MakeOptions({11, 13}, 1, 6, false, MlpOptions::Activation::kRelu);
  apart.separate_encoders = true;
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
      {"DuelingDistributions",
       MakeOptions({10}, 1, 0, true, kRelu),
       {Box("obs", {6})},
       {Box("q", {3, 21})}},
      {"HeadsOnTheInput",
       MakeOptions({}, 1, 18, false, kTanh),
       {Box("obs/a", {2, 3}), Box("obs/b", {}), Box("obs/c", {12})},
       {Box("logit", {5}), Scalar("value", DType::kFloat32)}},
      {"OutputActivation", features, {Box("obs", {4})}, {Box("features", {9})}},
      {"SeparateEncoders",
       apart,
       {Box("obs", {4}), Box("action", {2})},
       {Scalar("q0", DType::kFloat32), Box("q1", {2})}},
  };
}

std::vector<NetworkCase> MlpNetworkCases(
    const std::function<std::unique_ptr<Network>(const MlpTestCase&)>& create) {
  std::vector<NetworkCase> cases;
  for (const MlpTestCase& test_case : MlpTestCases()) {
    cases.push_back({test_case.name, [create, test_case] { return create(test_case); }});
  }
  return cases;
}

BatchBuilder NormalRows(const SpecPtr& spec, int64_t rows, Rng rng) {
  auto builder = BatchBuilder::Create(spec, rows);
  EXPECT_THAT(builder, IsOk());
  for (int field = 0; field < spec->size(); ++field) {
    for (float& value : builder->column<float>(field)) value = static_cast<float>(rng.Normal());
  }
  return *std::move(builder);
}

}  // namespace ding
