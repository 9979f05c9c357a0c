#include "ding_worker/policy/testing/network_test_cases.h"

#include <utility>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
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

constexpr uint64_t kSeed = 7;

template <typename ConformanceCase>
std::vector<ConformanceCase> ConformanceCases(const CreateRnnTestCase& create) {
  std::vector<ConformanceCase> cases;
  for (RnnTestCase test_case : RnnTestCases()) {
    test_case.options.mlp.activation = MlpOptions::Activation::kTanh;
    cases.push_back({test_case.name, [create, test_case] { return create(test_case); }});
  }
  return cases;
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

std::vector<MlpTestCase> NormalizedMlpTestCases() {
  constexpr auto kRelu = MlpOptions::Activation::kRelu;
  constexpr auto kTanh = MlpOptions::Activation::kTanh;
  MlpOptions droq = MakeOptions({19, 11}, 0, 0, false, kRelu);
  droq.separate_encoders = true;
  droq.layer_norm = true;
  droq.dropout = 0.2;
  MlpOptions norm = MakeOptions({17}, 1, 6, false, kTanh);
  norm.layer_norm = true;
  MlpOptions dropout = MakeOptions({12, 9}, 0, 0, false, kRelu);
  dropout.dropout = 0.3;
  MlpOptions dueling = MakeOptions({10}, 1, 9, true, kTanh);
  dueling.layer_norm = true;
  dueling.dropout = 0.1;
  MlpOptions features = MakeOptions({11}, 0, 0, false, kTanh);
  features.layer_norm = true;
  features.dropout = 0.1;
  features.output_activation = true;
  return {
      {"Droq",
       droq,
       {Box("obs", {4}), Box("action", {2})},
       {Scalar("q0", DType::kFloat32), Scalar("q1", DType::kFloat32)}},
      {"LayerNormTanh", norm, {Box("obs", {5})}, {Box("q", {3})}},
      {"DropoutRelu", dropout, {Box("obs", {5})}, {Box("q", {3})}},
      {"Dueling", dueling, {Box("obs", {4})}, {Box("q", {3})}},
      {"Features", features, {Box("obs", {4})}, {Box("features", {14})}},
  };
}

std::vector<NetworkCase> MlpNetworkCases(
    const std::function<std::unique_ptr<Network>(const MlpTestCase&)>& create,
    const std::vector<MlpTestCase>& architectures) {
  std::vector<NetworkCase> cases;
  for (const MlpTestCase& test_case : architectures) {
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

std::vector<RnnTestCase> RnnTestCases() {
  std::vector<RnnTestCase> cases;
  for (const RnnCell cell : {RnnCell::kLstm, RnnCell::kGru}) {
    int64_t hidden = 4;
    for (const MlpTestCase& mlp : MlpTestCases()) {
      // The first is of no use to a whole network, and the cell has one input.
      if (mlp.options.output_activation || mlp.options.separate_encoders) continue;
      RnnTestCase test_case;
      test_case.name = (cell == RnnCell::kLstm ? "Lstm" : "Gru") + mlp.name;
      test_case.options.cell = cell;
      test_case.options.hidden_size = hidden;
      test_case.options.mlp = mlp.options;
      test_case.mlp = mlp;
      cases.push_back(test_case);
      hidden = hidden % 19 + 3;  // among others 8, 16 and 17
    }
  }
  return cases;
}

std::vector<NetworkCase> RnnNetworkCases(const CreateRnnTestCase& create) {
  return ConformanceCases<NetworkCase>(create);
}

std::vector<RecurrentCase> RnnRecurrentCases(const CreateRnnTestCase& create) {
  return ConformanceCases<RecurrentCase>(create);
}

RandomSequences::RandomSequences(const RecurrentNetwork& network, int64_t count, int64_t length,
                                 double resets)
    : rows(NormalRows(network.input_spec(), count * length, Rng(kSeed, "rnn_test", 1))),
      d_output(NormalRows(network.output_spec(), count * length, Rng(kSeed, "rnn_test", 2))),
      state(static_cast<size_t>(count * network.state_size())),
      is_first(static_cast<size_t>(count * length)) {
  Rng rng(kSeed, "rnn_test", 3);
  for (float& value : state) value = static_cast<float>(rng.Uniform(-1, 1));
  for (uint8_t& mark : is_first) mark = rng.Uniform() < resets ? 1 : 0;
  view.rows = rows.view();
  view.length = length;
  view.state = state;
  view.is_first = is_first;
}

}  // namespace ding
