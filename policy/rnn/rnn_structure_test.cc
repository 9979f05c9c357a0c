#include "ding_worker/policy/rnn/rnn_structure.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/rnn/cell_kernels.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_rnn::CellKernels;
using internal_rnn::CellKernelsFor;
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
                IsInvalid(absl::StrCat("recurrent.hidden_size is ", size)));
  }
  RnnOptions options;
  options.hidden_size = kMaxLayerWidth;
  options.mlp.head_layer_num = 0;
  EXPECT_THAT(MakeRnnStructure(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})})),
              IsInvalid("parameters", "recurrent.hidden_size"));
}

TEST(RnnStructureTest, RefusesDropout) {
  RnnOptions options;
  options.mlp.dropout = 0.1;
  EXPECT_THAT(MakeRnnStructure(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})})),
              IsInvalid("a recurrent network has no dropout"));
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
  EXPECT_THAT(Create(config), IsInvalid("recurrent.hidden_size is 0", "head_layer_num is -1"));
}

TEST(RnnFactoryTest, RefusesParamsAndConvolutions) {
  NetworkConfig config = Config();
  config.mutable_params()->set_type_url("type.googleapis.com/mine.Config");
  EXPECT_THAT(Create(config), IsInvalid("mine.Config"));
  config = Config();
  config.add_conv()->set_channels(16);
  EXPECT_THAT(Create(config), IsInvalid("'rnn' has no convolutions"));
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

// rnn_test.cc compares whole networks with a reference; here each instruction set is compared with
// formulas in double precision.

constexpr int64_t kSize = 3 * 16;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<float> RandomPlanes(int64_t planes, int stream) {
  Rng rng(1, "cell_kernels_test", stream);
  std::vector<float> values(planes * kSize);
  for (float& value : values) value = static_cast<float>(2 * rng.Normal());
  return values;
}

class CellKernelsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  // Element i of plane `plane`.
  static double At(const std::vector<float>& planes, int64_t plane, int64_t i) {
    return planes[plane * kSize + i];
  }

  const CellKernels& kernels_ = CellKernelsFor(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, CellKernelsTest, testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) {
                           return std::string(InstructionSetName(info.param));
                         });

TEST_P(CellKernelsTest, Lstm) {
  const std::vector<float> a = RandomPlanes(4, 1);
  const std::vector<float> cell_before = RandomPlanes(1, 2);
  const std::vector<float> d_output = RandomPlanes(1, 3);
  const std::vector<float> d_hidden = RandomPlanes(1, 4);
  const std::vector<float> d_cell_after = RandomPlanes(1, 5);
  const std::vector<float> sums_before = RandomPlanes(4, 6);
  std::vector<float> gates = a;
  std::vector<float> cell(kSize), tanh_cell(kSize), hidden(kSize), d_gates(4 * kSize);
  std::vector<float> d_cell = d_cell_after;
  std::vector<float> sums = sums_before;
  kernels_.lstm_forward(
      {kSize, gates.data(), cell_before.data(), cell.data(), tanh_cell.data(), hidden.data()});
  kernels_.lstm_backward({kSize, gates.data(), cell_before.data(), tanh_cell.data(),
                          d_output.data(), d_hidden.data(), d_cell.data(), d_gates.data(),
                          sums.data()});
  for (int64_t k = 0; k < kSize; ++k) {
    const double i = Sigmoid(At(a, 0, k));
    const double f = Sigmoid(At(a, 1, k));
    const double g = std::tanh(At(a, 2, k));
    const double o = Sigmoid(At(a, 3, k));
    const double c = f * cell_before[k] + i * g;
    EXPECT_NEAR(cell[k], c, 4e-6);
    EXPECT_NEAR(hidden[k], o * std::tanh(c), 4e-6);
    const double d_h = double{d_output[k]} + d_hidden[k];
    const double d_c = d_cell_after[k] + d_h * o * (1 - std::tanh(c) * std::tanh(c));
    EXPECT_NEAR(d_cell[k], d_c * f, 2e-5);
    const double expected[] = {d_c * g * i * (1 - i), d_c * cell_before[k] * f * (1 - f),
                               d_c * i * (1 - g * g), d_h * std::tanh(c) * o * (1 - o)};
    for (int gate = 0; gate < 4; ++gate) {
      EXPECT_NEAR(At(d_gates, gate, k), expected[gate], 2e-5) << gate;
      EXPECT_NEAR(At(sums, gate, k) - At(sums_before, gate, k), expected[gate], 2e-5) << gate;
    }
  }
}

TEST_P(CellKernelsTest, Gru) {
  const std::vector<float> a = RandomPlanes(4, 1);  // The kernel writes the last plane.
  const std::vector<float> b = RandomPlanes(3, 2);
  const std::vector<float> hidden_before = RandomPlanes(1, 3);
  const std::vector<float> d_output = RandomPlanes(1, 4);
  const std::vector<float> d_hidden_after = RandomPlanes(1, 5);
  const std::vector<float> sums_before = RandomPlanes(4, 6);
  std::vector<float> gates = a;
  std::vector<float> hidden(kSize), d_gates(3 * kSize), d_products(3 * kSize);
  std::vector<float> d_hidden = d_hidden_after;
  std::vector<float> sums = sums_before;
  kernels_.gru_forward({kSize, gates.data(), b.data(), hidden_before.data(), hidden.data()});
  kernels_.gru_backward({kSize, gates.data(), hidden_before.data(), d_output.data(),
                         d_hidden.data(), d_gates.data(), d_products.data(), sums.data()});
  for (int64_t k = 0; k < kSize; ++k) {
    const double r = Sigmoid(At(a, 0, k) + At(b, 0, k));
    const double z = Sigmoid(At(a, 1, k) + At(b, 1, k));
    const double n = std::tanh(At(a, 2, k) + r * At(b, 2, k));
    EXPECT_NEAR(hidden[k], (1 - z) * n + z * hidden_before[k], 4e-6);
    const double d_h = double{d_output[k]} + d_hidden_after[k];
    EXPECT_NEAR(d_hidden[k], d_h * z, 2e-5);
    const double d_n = d_h * (1 - z) * (1 - n * n);
    const double d_r = d_n * At(b, 2, k) * r * (1 - r);
    const double d_z = d_h * (hidden_before[k] - n) * z * (1 - z);
    const double by_a[] = {d_r, d_z, d_n};
    const double by_b[] = {d_r, d_z, d_n * r};
    const double added[] = {d_r, d_z, d_n, d_n * r};
    for (int gate = 0; gate < 3; ++gate) {
      EXPECT_NEAR(At(d_gates, gate, k), by_a[gate], 2e-5) << gate;
      EXPECT_NEAR(At(d_products, gate, k), by_b[gate], 2e-5) << gate;
    }
    for (int gate = 0; gate < 4; ++gate) {
      EXPECT_NEAR(At(sums, gate, k) - At(sums_before, gate, k), added[gate], 2e-5) << gate;
    }
  }
}

}  // namespace
}  // namespace ding
