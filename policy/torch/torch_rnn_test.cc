#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/network_test_cases.h"
#include "ding_worker/policy/testing/recurrent_conformance.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSeed = 7;

std::unique_ptr<RecurrentNetwork> CreateTorch(const RnnTestCase& test_case) {
  auto network = CreateTorchRnn(test_case.options, *MakeSpec(test_case.mlp.input),
                                *MakeSpec(test_case.mlp.output), kSeed);
  EXPECT_THAT(network, IsOk());
  return *std::move(network);
}

INSTANTIATE_TEST_SUITE_P(TorchRnn, NetworkConformance,
                         testing::ValuesIn(RnnNetworkCases(CreateTorch)), NetworkCaseName);
INSTANTIATE_TEST_SUITE_P(TorchRnn, RecurrentConformance,
                         testing::ValuesIn(RnnRecurrentCases(CreateTorch)), RecurrentCaseName);

// The two implementations of an architecture: by autograd and hand-written.
class TorchRnnTest : public testing::TestWithParam<RnnTestCase> {
 protected:
  TorchRnnTest()
      : torch_(CreateTorch(GetParam())),
        rnn_(*Rnn::Create(GetParam().options, torch_->input_spec(), torch_->output_spec(), kSeed)) {
  }

  const std::unique_ptr<RecurrentNetwork> torch_;
  const std::unique_ptr<Rnn> rnn_;
};

INSTANTIATE_TEST_SUITE_P(All, TorchRnnTest, testing::ValuesIn(RnnTestCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(TorchRnnTest, HasTheParametersOfRnnInTheSamePlaces) {
  ASSERT_EQ(torch_->parameter_info().size(), rnn_->parameter_info().size());
  for (size_t i = 0; i < rnn_->parameter_info().size(); ++i) {
    EXPECT_EQ(torch_->parameter_info()[i].name, rnn_->parameter_info()[i].name);
    EXPECT_EQ(torch_->parameter_info()[i].shape, rnn_->parameter_info()[i].shape);
    EXPECT_EQ(torch_->parameter_info()[i].offset, rnn_->parameter_info()[i].offset);
  }
  EXPECT_EQ(std::as_const(*torch_).parameters(), std::as_const(*rnn_).parameters());
  EXPECT_EQ(torch_->state_size(), rnn_->state_size());
}

void ExpectNear(absl::Span<const float> found, absl::Span<const float> expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i])))
        << "element " << i;
  }
}

// Whether the error of each parameter's gradient is small beside the gradient.
void ExpectSameGradients(RecurrentNetwork* found, RecurrentNetwork* expected) {
  for (const ParameterInfo& info : expected->parameter_info()) {
    double error = 0;
    double square = 0;
    for (int64_t i = info.offset; i < info.offset + NumElements(info.shape); ++i) {
      error += std::pow(double{found->gradients()[i]} - expected->gradients()[i], 2);
      square += std::pow(double{expected->gradients()[i]}, 2);
    }
    EXPECT_LE(std::sqrt(error), 1e-4 * std::sqrt(square)) << info.name;
  }
}

TEST_P(TorchRnnTest, OutputsStatesAndGradientsEqualThoseOfRnn) {
  struct Size {
    int64_t count, length, burn_in;
    double resets;
  };
  for (const Size size : {Size{1, 1, 0, 0}, Size{6, 5, 0, 0}, Size{6, 5, 0, 0.2}, Size{4, 6, 2, 0},
                          Size{9, 7, 3, 0.2}}) {
    const int64_t rows = size.count * size.length;
    RandomSequences sequences(*rnn_, size.count, size.length, size.resets);
    sequences.view.burn_in = size.burn_in;
    const BatchBuilder expected = NormalRows(rnn_->output_spec(), rows, Rng(kSeed, "test", 1));
    const BatchBuilder found = NormalRows(rnn_->output_spec(), rows, Rng(kSeed, "test", 2));
    for (const int64_t num_states : {rows, size.count, int64_t{0}}) {
      SCOPED_TRACE(absl::StrCat(size.count, " sequences of ", size.length, ", burn-in ",
                                size.burn_in, ", resets ", size.resets, ", ", num_states,
                                " states"));
      std::vector<float> expected_states(num_states * rnn_->state_size());
      std::vector<float> found_states(expected_states.size());
      ASSERT_THAT(
          rnn_->ForwardSequences(sequences.view, expected.view(), absl::MakeSpan(expected_states)),
          IsOk());
      ASSERT_THAT(
          torch_->ForwardSequences(sequences.view, found.view(), absl::MakeSpan(found_states)),
          IsOk());
      ExpectNear(found_states, expected_states);
      for (int field = 0; field < rnn_->output_spec()->size(); ++field) {
        ExpectNear(found.column<float>(field), expected.column<float>(field));
      }
      ASSERT_THAT(rnn_->Backward(sequences.d_output.view()), IsOk());
      ASSERT_THAT(torch_->Backward(sequences.d_output.view()), IsOk());
      ExpectSameGradients(torch_.get(), rnn_.get());
    }
  }
}

// Algorithms may pass on the states of a step before they go back through it.
TEST_P(TorchRnnTest, TheStateMayBeReplacedBetweenForwardAndBackward) {
  RandomSequences sequences(*rnn_, 5, 1, 0);
  const std::vector<float> state = sequences.state;
  const BatchBuilder output = NormalRows(rnn_->output_spec(), 5, Rng(kSeed, "test", 1));
  ASSERT_THAT(rnn_->ForwardSequences(sequences.view, output.view(), {}), IsOk());
  ASSERT_THAT(rnn_->Backward(sequences.d_output.view()), IsOk());
  ASSERT_THAT(
      torch_->ForwardSequences(sequences.view, output.view(), absl::MakeSpan(sequences.state)),
      IsOk());
  EXPECT_NE(sequences.state, state);
  ASSERT_THAT(torch_->Backward(sequences.d_output.view()), IsOk());
  ExpectSameGradients(torch_.get(), rnn_.get());
}

TEST(TorchRnnFactoryTest, CreatesByName) {
  NetworkConfig config;
  config.set_type("torch_rnn");
  config.add_encoder_hidden_size(32);
  const SpecPtr input = *MakeSpec({Box("obs", {4})});
  const SpecPtr output = *MakeSpec({Box("q", {2})});
  DING_ASSERT_OK_AND_ASSIGN(const auto lstm, create_network(config, input, output, 0));
  EXPECT_EQ(lstm->info(), "torch rnn lstm 64 in 4-32, q 64-2: 29,282 parameters");
  EXPECT_NE(AsRecurrent(lstm.get()), nullptr);
  config.mutable_recurrent()->set_cell(RecurrentConfig::GRU);
  config.mutable_recurrent()->set_hidden_size(16);
  DING_ASSERT_OK_AND_ASSIGN(const auto gru, create_network(config, input, output, 0));
  EXPECT_THAT(gru->info(), HasSubstr("torch rnn gru 16 in 4-32, q 16-2: "));
  config.mutable_recurrent()->set_hidden_size(0);
  EXPECT_THAT(create_network(config, input, output, 0), IsInvalid("recurrent.hidden_size is 0"));
}

TEST(TorchRnnFactoryTest, RefusesParamsAndConvolutions) {
  const SpecPtr input = *MakeSpec({Box("obs", {4})});
  const SpecPtr output = *MakeSpec({Box("q", {2})});
  NetworkConfig config;
  config.set_type("torch_rnn");
  config.mutable_params()->set_type_url("type.googleapis.com/mine.Config");
  EXPECT_THAT(create_network(config, input, output, 0), IsInvalid("mine.Config"));
  config.clear_params();
  config.add_conv()->set_channels(16);
  EXPECT_THAT(create_network(config, input, output, 0),
              IsInvalid("'torch_rnn' has no convolutions"));
}

}  // namespace
}  // namespace ding
