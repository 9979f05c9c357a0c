#include "ding_worker/policy/mlp/mlp_structure.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;

MlpOptions CartPole() {
  MlpOptions options;
  options.encoder_hidden_size = {128, 128, 64};
  options.dueling = true;
  return options;
}

SpecPtr SpecOf(std::vector<FieldSpec> fields) { return *MakeSpec(std::move(fields)); }

TEST(MlpStructureTest, BuildsTheCartPoleNetworkOfDiEngine) {
  DING_ASSERT_OK_AND_ASSIGN(
      const MlpStructure structure,
      MakeMlpStructure(CartPole(), SpecOf({Box("obs", {4})}), SpecOf({Box("q", {2})})));
  EXPECT_EQ(structure.DebugString(), "4-128-128-64, dueling q 64-2: 33,923 parameters");
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  for (const ParameterInfo& info : structure.parameters) {
    names.push_back(info.name);
    shapes.push_back(info.shape);
  }
  EXPECT_THAT(names, ElementsAre("encoder/0/weight", "encoder/0/bias", "encoder/1/weight",
                                 "encoder/1/bias", "encoder/2/weight", "encoder/2/bias",
                                 "q/advantage/0/weight", "q/advantage/0/bias",
                                 "q/advantage/1/weight", "q/advantage/1/bias", "q/value/0/weight",
                                 "q/value/0/bias", "q/value/1/weight", "q/value/1/bias"));
  EXPECT_EQ(shapes[0], Shape({128, 4}));
  EXPECT_EQ(shapes[9], Shape({2}));
  EXPECT_EQ(shapes[12], Shape({1, 64}));
}

TEST(MlpStructureTest, BuildsHeadsWithoutAnEncoderAndWithOtherWidths) {
  MlpOptions options;
  options.head_hidden_size = 7;
  options.head_layer_num = 2;
  options.activation = MlpOptions::Activation::kTanh;
  DING_ASSERT_OK_AND_ASSIGN(
      const MlpStructure structure,
      MakeMlpStructure(options, SpecOf({Box("obs/a", {2, 3}), Box("obs/b", {})}),
                       SpecOf({Box("logit", {4}), Scalar("value", DType::kFloat32)})));
  EXPECT_EQ(structure.input_width, 7);
  EXPECT_EQ(structure.DebugString(), "7 tanh, logit 7-7-4, value 7-7-1: 264 parameters");
  EXPECT_EQ(structure.layers[3].name, "value/0");
  EXPECT_EQ(structure.layers[3].source, -1);
}

TEST(MlpStructureTest, HeadsWithSeparateEncodersHaveOnlyTheInputInCommon) {
  MlpOptions options;
  options.encoder_hidden_size = {64, 32};
  options.head_layer_num = 0;
  options.separate_encoders = true;
  DING_ASSERT_OK_AND_ASSIGN(
      const MlpStructure structure,
      MakeMlpStructure(options, SpecOf({Box("obs", {3}), Box("action", {1})}),
                       SpecOf({Scalar("q0", DType::kFloat32), Scalar("q1", DType::kFloat32)})));
  EXPECT_EQ(structure.DebugString(), "4-64-32 for each head, q0 1, q1 1: 4,866 parameters");
  EXPECT_EQ(structure.layers[3].name, "q1/encoder/0");
  EXPECT_EQ(structure.layers[3].source, -1);
  EXPECT_EQ(structure.layers[5].source, 4);
}

TEST(MlpStructureTest, HiddenLayersMayHaveDropoutAndLayerNormalization) {
  MlpOptions options;
  options.encoder_hidden_size = {6};
  options.head_layer_num = 0;
  options.layer_norm = true;
  options.dropout = 0.01;
  DING_ASSERT_OK_AND_ASSIGN(
      const MlpStructure structure,
      MakeMlpStructure(options, SpecOf({Box("obs", {4})}), SpecOf({Box("q", {2})})));
  EXPECT_EQ(structure.DebugString(), "4-6 dropout 0.01 layer norm, q 2: 56 parameters");
  std::vector<std::string> names;
  for (const ParameterInfo& info : structure.parameters) names.push_back(info.name);
  EXPECT_THAT(names, ElementsAre("encoder/0/weight", "encoder/0/bias", "encoder/0/norm/weight",
                                 "encoder/0/norm/bias", "q/0/weight", "q/0/bias"));
  std::vector<float> parameters(56, 7);
  InitializeMlpParameters(structure, 1, absl::MakeSpan(parameters));
  const auto all = absl::MakeConstSpan(parameters);
  EXPECT_THAT(all.subspan(30, 6), Each(1));
  EXPECT_THAT(all.subspan(36, 6), Each(0));
  EXPECT_EQ(structure.layers[1].norm_weight_offset, -1);
  for (const double dropout : {-0.1, 1.0, std::nan("")}) {
    options.dropout = dropout;
    EXPECT_THAT(MakeMlpStructure(options, SpecOf({Box("obs", {4})}), SpecOf({Box("q", {2})})),
                IsInvalid("must be in [0, 1)"));
  }
}

TEST(MlpStructureTest, OtherNetworksRefuseDropoutAndLayerNormalization) {
  MlpOptions options;
  EXPECT_THAT(RefuseNormalization(options, "network 'x'"), IsOk());
  options.dropout = 0.5;
  EXPECT_THAT(RefuseNormalization(options, "network 'x'"),
              IsInvalid("network 'x' has no dropout", "dropout is 0.5", "expected 0 and false"));
  options.dropout = 0;
  options.layer_norm = true;
  EXPECT_THAT(RefuseNormalization(options, "network 'x'"), IsInvalid("layer_norm is true"));
}

TEST(MlpStructureTest, ReportsEveryProblemAtOnce) {
  MlpOptions options;
  options.encoder_hidden_size = {64, 0};
  options.head_layer_num = -1;
  options.head_hidden_size = -5;
  options.dueling = true;
  EXPECT_THAT(
      MakeMlpStructure(options, SpecOf({Box("obs", {4}), Discrete("room", 3)}),
                       SpecOf({Scalar("value", DType::kFloat32), Scalar("n", DType::kInt64)})),
      IsInvalid("encoder_hidden_size[1] is 0", "head_layer_num is -1", "head_hidden_size is -5",
                "input 'room' is int64", "output 'n' is int64",
                "output 'value' is float32[]; a dueling head"));
  EXPECT_THAT(MakeMlpStructure(MlpOptions(), SpecOf({Box("obs", {4})}), SpecOf({Box("q", {2})})),
              IsInvalid("encoder_hidden_size is empty"));
  EXPECT_THAT(MakeMlpStructure(CartPole(), SpecOf({}), SpecOf({})),
              IsInvalid("no input field", "no output field"));
}

TEST(MlpStructureTest, RefusesMoreParametersThanAnIndexCanHold) {
  MlpOptions options;
  options.encoder_hidden_size = {1 << 20, 1 << 20};
  EXPECT_THAT(MakeMlpStructure(options, SpecOf({Box("obs", {4})}), SpecOf({Box("q", {2})})),
              IsInvalid("parameters; at most"));
}

TEST(MlpStructureTest, InitialParametersAreUniformWithinTheirBounds) {
  DING_ASSERT_OK_AND_ASSIGN(
      const MlpStructure structure,
      MakeMlpStructure(CartPole(), SpecOf({Box("obs", {4})}), SpecOf({Box("q", {2})})));
  std::vector<float> parameters(structure.num_parameters);
  InitializeMlpParameters(structure, 4, absl::MakeSpan(parameters));
  for (const MlpLayer& layer : structure.layers) {
    SCOPED_TRACE(layer.name);
    const float bound = 1 / std::sqrt(static_cast<float>(layer.in));
    const auto all = absl::MakeConstSpan(parameters)
                         .subspan(layer.weight_offset, layer.out * layer.in + layer.out);
    EXPECT_THAT(all, Each(AllOf(Ge(-bound), Le(bound))));
    double sum = 0;
    double square = 0;
    for (const float value : all) {
      sum += value / bound;
      square += double{value} / bound * value / bound;
    }
    const auto n = static_cast<double>(all.size());
    // Five standard deviations of the means of u and u^2, u uniform in -1..1: variances 1/3, 4/45.
    EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(1 / (3 * n)));
    EXPECT_NEAR(square / n, 1.0 / 3, 5 * std::sqrt(4 / (45 * n)));
  }
  std::vector<float> again(structure.num_parameters);
  InitializeMlpParameters(structure, 4, absl::MakeSpan(again));
  EXPECT_EQ(again, parameters);
  InitializeMlpParameters(structure, 5, absl::MakeSpan(again));
  EXPECT_NE(again, parameters);
}

}  // namespace
}  // namespace ding
