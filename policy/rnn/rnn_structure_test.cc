#include "ding_worker/policy/rnn/rnn_structure.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

RnnStructure Make(const RnnOptions& options) {
  auto structure =
      MakeRnnStructure(options, *MakeSpec({Box("obs", {4})}),
                       *MakeSpec({Box("logit", {3}), Scalar("value", DType::kFloat32)}));
  EXPECT_THAT(structure, IsOk());
  return *std::move(structure);
}

// "encoder/0/weight [8, 4] at 0".
std::vector<std::string> Parameters(const RnnStructure& structure) {
  std::vector<std::string> lines;
  for (const ParameterInfo& info : structure.parameters) {
    lines.push_back(
        absl::StrCat(info.name, " [", absl::StrJoin(info.shape, ", "), "] at ", info.offset));
  }
  return lines;
}

TEST(RnnStructureTest, LstmHasOneBias) {
  RnnOptions options;
  options.hidden_size = 5;
  options.mlp.encoder_hidden_size = {8, 6};
  options.mlp.head_layer_num = 0;
  const RnnStructure structure = Make(options);
  EXPECT_THAT(
      Parameters(structure),
      ElementsAre("encoder/0/weight [8, 4] at 0", "encoder/0/bias [8] at 32",
                  "encoder/1/weight [6, 8] at 40", "encoder/1/bias [6] at 88",
                  "rnn/weight_ih [20, 6] at 94", "rnn/weight_hh [20, 5] at 214",
                  "rnn/bias [20] at 314", "logit/0/weight [3, 5] at 334", "logit/0/bias [3] at 349",
                  "value/0/weight [1, 5] at 352", "value/0/bias [1] at 357"));
  EXPECT_EQ(structure.cell.state_size(), 10);
  EXPECT_EQ(structure.description, "lstm 5 in 4-8-6, logit 3, value 1: 358 parameters");
}

TEST(RnnStructureTest, GruHasTwoBiasesAndReadsTheInputWithoutAnEncoder) {
  RnnOptions options;
  options.cell = RnnCell::kGru;
  options.hidden_size = 5;
  options.mlp.activation = MlpOptions::Activation::kTanh;
  const RnnStructure structure = Make(options);
  EXPECT_FALSE(structure.encoder.has_value());
  EXPECT_THAT(Parameters(structure),
              ElementsAre("rnn/weight_ih [15, 4] at 0", "rnn/weight_hh [15, 5] at 60",
                          "rnn/bias_ih [15] at 135", "rnn/bias_hh [15] at 150",
                          "logit/0/weight [5, 5] at 165", "logit/0/bias [5] at 190",
                          "logit/1/weight [3, 5] at 195", "logit/1/bias [3] at 210",
                          "value/0/weight [5, 5] at 213", "value/0/bias [5] at 238",
                          "value/1/weight [1, 5] at 243", "value/1/bias [1] at 248"));
  EXPECT_EQ(structure.cell.state_size(), 5);
  EXPECT_EQ(structure.description, "gru 5 in 4 tanh, logit 5-3, value 5-1: 249 parameters");
}

TEST(RnnStructureTest, ParametersOfTheCellAreWithinOneOverTheRootOfItsWidth) {
  RnnOptions options;
  options.hidden_size = 64;
  options.mlp.encoder_hidden_size = {4};
  const RnnStructure structure = Make(options);
  std::vector<float> parameters(structure.num_parameters);
  InitializeRnnParameters(structure, /*seed=*/3, absl::MakeSpan(parameters));
  for (const ParameterInfo& info : structure.parameters) {
    float largest = 0;
    for (int64_t i = info.offset; i < info.offset + NumElements(info.shape); ++i) {
      EXPECT_NE(parameters[i], 0) << info.name;
      largest = std::max(largest, std::abs(parameters[i]));
    }
    const bool of_encoder = info.name.substr(0, 7) == "encoder";
    EXPECT_LE(largest, of_encoder ? 0.5f : 0.125f) << info.name;
    if (NumElements(info.shape) > 100) {
      EXPECT_GE(largest, 0.12f) << info.name;
    }
  }
  // The parts go on with one stream: none repeats the numbers of another one.
  EXPECT_NE(parameters[0] / 0.5f, parameters[structure.encoder->num_parameters] / 0.125f);
}

TEST(RnnStructureTest, RefusesSizesOutOfRange) {
  for (const int64_t size : {int64_t{0}, int64_t{-1}, kMaxLayerWidth + 1}) {
    RnnOptions options;
    options.hidden_size = size;
    EXPECT_THAT(MakeRnnStructure(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})})),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("recurrent.hidden_size is ", size))));
  }
  RnnOptions options;
  options.hidden_size = kMaxLayerWidth;
  options.mlp.head_layer_num = 0;
  EXPECT_THAT(MakeRnnStructure(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("parameters"), HasSubstr("recurrent.hidden_size"))));
}

TEST(RnnStructureTest, RefusesDropout) {
  RnnOptions options;
  options.mlp.dropout = 0.1;
  EXPECT_THAT(MakeRnnStructure(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a recurrent network has no dropout")));
}

}  // namespace
}  // namespace ding
