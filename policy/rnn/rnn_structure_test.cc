#include "ding_worker/policy/rnn/rnn_structure.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/rnn/rnn.h"
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

absl::StatusOr<std::unique_ptr<Network>> Create(const NetworkConfig& config) {
  return create_network(config, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})}), 0);
}

NetworkConfig Config() {
  NetworkConfig config;
  config.set_type("rnn");
  config.add_encoder_hidden_size(32);
  return config;
}

TEST(RnnFactoryTest, IsAnLstmOfWidth64IfTheConfigDoesNotSay) {
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create(Config()));
  EXPECT_EQ(network->info(), "rnn lstm 64 in 4-32, q 64-2: 29,282 parameters");
  EXPECT_NE(AsRecurrent(network.get()), nullptr);
}

TEST(RnnFactoryTest, ReadsAllFields) {
  NetworkConfig config = Config();
  config.mutable_recurrent()->set_cell(RecurrentConfig::GRU);
  config.mutable_recurrent()->set_hidden_size(16);
  config.set_dueling(true);
  config.set_activation(NetworkConfig::TANH);
  config.set_head_hidden_size(8);
  config.set_head_layer_num(2);
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create(config));
  EXPECT_THAT(network->info(), HasSubstr("rnn gru 16 in 4-32 tanh, dueling q 8-8-2: "));
}

TEST(RnnFactoryTest, ReportsEveryProblemAtOnce) {
  NetworkConfig config = Config();
  config.mutable_recurrent()->set_hidden_size(0);
  config.set_head_layer_num(-1);
  EXPECT_THAT(Create(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("recurrent.hidden_size is 0"),
                                             HasSubstr("head_layer_num is -1"))));
}

TEST(RnnFactoryTest, RefusesParamsAndConvolutions) {
  NetworkConfig config = Config();
  config.mutable_params()->set_type_url("type.googleapis.com/mine.Config");
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mine.Config")));
  config = Config();
  config.add_conv()->set_channels(16);
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'rnn' has no convolutions")));
}

// Passes must not allocate while sizes repeat, also if collecting and learning alternate: the
// allocator would take as much time as a layer, and fragment memory over billions of calls.

constexpr int64_t kSequences = 20;
constexpr int64_t kLength = 6;
constexpr int64_t kEnvs = 5;

class RnnAllocation : public testing::TestWithParam<RnnCell> {};

INSTANTIATE_TEST_SUITE_P(Cells, RnnAllocation, testing::Values(RnnCell::kLstm, RnnCell::kGru));

TEST_P(RnnAllocation, AllocatesNothingWhileSizesRepeat) {
  RnnOptions options;
  options.cell = GetParam();
  options.hidden_size = 12;
  options.mlp.encoder_hidden_size = {10};
  options.mlp.dueling = true;
  const auto rnn =
      *Rnn::Create(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})}), 0);
  const BatchBuilder input = *BatchBuilder::Create(rnn->input_spec(), kSequences * kLength);
  const BatchBuilder output = *BatchBuilder::Create(rnn->output_spec(), kSequences * kLength);
  const auto elements = input.column<float>(0);
  std::fill(elements.begin(), elements.end(), 0.5f);
  const std::vector<uint8_t> is_first(kSequences * kLength, 0);
  std::vector<float> states(kSequences * rnn->state_size());
  Sequences sequences;
  sequences.rows = input.view();
  sequences.length = kLength;
  sequences.state = states;
  sequences.is_first = is_first;
  sequences.burn_in = 2;
  Sequences step;
  step.rows = sequences.rows.Slice(0, kEnvs);
  step.state = sequences.state.subspan(0, kEnvs * rnn->state_size());
  const auto states_of_step = absl::MakeSpan(states).subspan(0, step.state.size());
  int64_t before = 0;
  for (int i = 0; i < 10; ++i) {
    if (i == 1) before = AllocationCount();
    const bool ok = rnn->InferSequences(step, output.view(), states_of_step).ok() &&
                    rnn->InferSequences(sequences, output.view(), {}).ok() &&
                    rnn->ForwardSequences(sequences, output.view(), {}).ok() &&
                    rnn->Backward(output.view()).ok();
    ASSERT_TRUE(ok);
  }
  EXPECT_GT(before, 0) << "the counter does not count";
  EXPECT_EQ(AllocationCount() - before, 0);
}

}  // namespace
}  // namespace ding
