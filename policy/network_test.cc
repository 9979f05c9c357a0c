#include "ding_worker/policy/network.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/noisy_network.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<ParameterInfo>& Layout() {
  static const auto* const layout =
      new std::vector<ParameterInfo>{{"encoder/0/weight", {3, 2}, 0}, {"encoder/0/bias", {3}, 6}};
  return *layout;
}

std::vector<float> Values() { return {1, 2, 3, 4, 5, 6, 7, 8, 9}; }

TEST(ParameterState, SavesUnderTheNamesOfTheParametersAndLoadsTheSame) {
  StateDict state;
  ASSERT_THAT(SaveParameters(Layout(), Values(), "model", &state), IsOk());
  EXPECT_THAT(state.Names(), ElementsAre("model/encoder/0/weight", "model/encoder/0/bias"));
  EXPECT_EQ(state.tensors().Find("model/encoder/0/weight")->shape(), (Shape{3, 2}));
  std::vector<float> loaded(9);
  ASSERT_THAT(LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)), IsOk());
  EXPECT_EQ(loaded, Values());
}

TEST(ParameterState, IgnoresOtherScopesOfTheState) {
  StateDict state;
  ASSERT_THAT(state.WriteInt("train_iter", 3), IsOk());
  ASSERT_THAT(SaveParameters(Layout(), Values(), "model", &state), IsOk());
  std::vector<float> loaded(9);
  EXPECT_THAT(LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)), IsOk());
}

TEST(ParameterState, RefusesAModelThatDoesNotFitWithAllProblems) {
  StateDict state;
  const std::vector<ParameterInfo> other = {{"encoder/0/weight", {2, 3}, 0}, {"head/bias", {3}, 6}};
  ASSERT_THAT(SaveParameters(other, Values(), "model", &state), IsOk());
  std::vector<float> loaded(9, -1.0f);
  EXPECT_THAT(LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)),
              IsInvalid("the saved 'model' does not fit",
                        "'encoder/0/weight' is float32[2, 3], expected float32[3, 2]",
                        "'encoder/0/bias' [3] is missing", "'head/bias' is unknown"));
  EXPECT_EQ(loaded, std::vector<float>(9, -1.0f));
}

TEST(ParameterState, RefusesAModelWithNan) {
  StateDict state;
  ASSERT_THAT(SaveParameters({Layout()[0]}, Values(), "model", &state), IsOk());
  Tensor bias = Tensor::Zeros(DType::kFloat32, {3});
  bias.mutable_data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_THAT(state.WriteTensor("model/encoder/0/bias", bias), IsOk());
  std::vector<float> loaded(9, -1.0f);
  EXPECT_THAT(LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)),
              IsInvalid("'encoder/0/bias' is not finite"));
  EXPECT_EQ(loaded, std::vector<float>(9, -1.0f));
}

// As those that a lost GPU no longer gives.
TEST(ParameterState, DoesNotSaveNan) {
  StateDict state;
  std::vector<float> values = Values();
  values[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(SaveParameters(Layout(), values, "model", &state),
              IsInternal("'model/encoder/0/bias' is not finite"));
}

TEST(ParameterState, LeavesNamesOfOthersAlone) {
  StateDict state;
  ASSERT_THAT(SaveParameters(Layout(), Values(), "model", &state), IsOk());
  ASSERT_THAT(state.WriteDouble("model/statistics/mean", 1), IsOk());
  std::vector<float> loaded(9);
  EXPECT_THAT(LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)),
              IsInvalid("'statistics/mean' is unknown"));
  EXPECT_THAT(
      LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded), {"statistics/mean"}),
      IsOk());
}

TEST(ParameterState, APolicyWithoutParametersRefusesAModel) {
  StateDict state;
  EXPECT_THAT(LoadEmptyModel(&state), IsOk());
  ASSERT_THAT(SaveParameters(Layout(), Values(), "model", &state), IsOk());
  EXPECT_THAT(LoadEmptyModel(&state), IsInvalid("'encoder/0/weight' is unknown"));
}

INSTANTIATE_TEST_SUITE_P(Linear, NetworkConformance,
                         testing::Values(NetworkCase{"linear",
                                                     [] {
                                                       return std::make_unique<LinearNetwork>(
                                                           *MakeSpec({Box("obs", {3})}),
                                                           *MakeSpec({Box("q", {4})}), 1);
                                                     }}),
                         NetworkCaseName);

std::unique_ptr<Network> Inner(int64_t hidden_layers, bool dueling) {
  MlpOptions options;
  options.encoder_hidden_size = {6};
  options.head_layer_num = hidden_layers;
  options.dueling = dueling;
  options.activation = MlpOptions::Activation::kTanh;
  return *Mlp::Create(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {3})}), 7);
}

std::unique_ptr<NoisyNetwork> Create(int64_t hidden_layers = 1, bool dueling = false) {
  return *NoisyNetwork::Create(Inner(hidden_layers, dueling), 0.5);
}

std::unique_ptr<NoisyNetwork> CreateDrawn(bool dueling) {
  auto network = Create(1, dueling);
  Rng rng(3, "noisy_network_test");
  network->Draw(&rng);
  return network;
}

INSTANTIATE_TEST_SUITE_P(Noisy, NetworkConformance,
                         testing::Values(NetworkCase{"Drawn", [] { return CreateDrawn(false); }},
                                         NetworkCase{"Dueling", [] { return CreateDrawn(true); }}),
                         NetworkCaseName);

std::vector<float> Outputs(Network* network) {
  const Batch obs = MakeObservationBatch(network->input_spec(), 5, 5);
  const BatchBuilder out = *BatchBuilder::Create(network->output_spec(), 5);
  EXPECT_THAT(network->Infer(obs.view(), out.view()), IsOk());
  return {out.column<float>(0).begin(), out.column<float>(0).end()};
}

TEST(NoisyNetworkTest, TheHeadsHaveDeviationsBehindTheMeans) {
  const auto network = Create();
  const auto inner = Inner(1, false);
  std::vector<std::string> names;
  for (const ParameterInfo& info : network->parameter_info()) names.push_back(info.name);
  EXPECT_THAT(names, testing::ElementsAre("encoder/0/weight", "encoder/0/bias", "q/0/weight",
                                          "q/0/bias", "q/1/weight", "q/1/bias",
                                          "q/0/weight_deviation", "q/0/bias_deviation",
                                          "q/1/weight_deviation", "q/1/bias_deviation"));
  const auto means = std::as_const(*inner).parameters();
  EXPECT_EQ(std::as_const(*network).parameters().subspan(0, means.size()), means);
  for (const float deviation : std::as_const(*network).parameters().subspan(means.size())) {
    EXPECT_FLOAT_EQ(deviation, 0.5f / std::sqrt(6.0f));
  }
  EXPECT_THAT(network->info(), HasSubstr("with 2 noisy layers: 156 parameters in all"));
}

TEST(NoisyNetworkTest, WithoutNoiseItIsTheInnerNetwork) {
  const auto network = Create();
  const std::vector<float> plain = Outputs(Inner(1, false).get());
  EXPECT_EQ(Outputs(network.get()), plain);
  Rng rng(1, "noisy_network_test");
  network->Draw(&rng);
  const std::vector<float> drawn = Outputs(network.get());
  EXPECT_NE(drawn, plain);
  EXPECT_EQ(Outputs(network.get()), drawn) << "the numbers stay until the next draw";
  network->Draw(&rng);
  EXPECT_NE(Outputs(network.get()), drawn);
  network->UseMeans();
  EXPECT_EQ(Outputs(network.get()), plain);
}

// The effective weights of a linear head, read off its outputs, have the moments of the definition:
// E f(e) = 0 and E f(e)^2 = E |e| = sqrt(2 / pi), so that a weight has the variance deviation^2 * 2
// / pi.
TEST(NoisyNetworkTest, TheNoiseOfAWeightHasTheVarianceOfItsDefinition) {
  MlpOptions options;
  options.head_layer_num = 0;
  auto network = *NoisyNetwork::Create(
      *Mlp::Create(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {3})}), 7), 0.5);
  BatchBuilder obs = *BatchBuilder::Create(network->input_spec(), 2);
  for (float& x : obs.column<float>(0)) x = 0;
  obs.column<float>(0)[0] = 1;  // row 0 - row 1 is weight [0, 0] for output 0
  const BatchBuilder out = *BatchBuilder::Create(network->output_spec(), 2);
  Rng rng(1, "noisy_network_test");
  constexpr int kDraws = 20000;
  double sum = 0;
  double square = 0;
  const double mean = std::as_const(*network).parameters()[0];
  for (int draw = 0; draw < kDraws; ++draw) {
    network->Draw(&rng);
    ASSERT_THAT(network->Infer(obs.view(), out.view()), IsOk());
    const double noise = out.column<float>(0)[0] - out.column<float>(0)[3] - mean;
    sum += noise / kDraws;
    square += noise * noise / kDraws;
  }
  const double deviation = 0.5 / std::sqrt(4.0);
  EXPECT_NEAR(sum, 0, 0.01);
  EXPECT_NEAR(square, deviation * deviation * 2 / std::acos(-1.0), 0.004);
}

TEST(NoisyNetworkTest, RefusesADeviationThatIsOutOfRange) {
  for (const double deviation : {0.0, -1.0, std::nan("")}) {
    EXPECT_THAT(NoisyNetwork::Create(Inner(1, false), deviation), IsInvalid("must be finite"));
  }
}

}  // namespace
}  // namespace ding
