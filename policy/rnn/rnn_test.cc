#include "ding_worker/policy/rnn/rnn.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/network_test_cases.h"
#include "ding_worker/policy/testing/recurrent_conformance.h"
#include "ding_worker/policy/testing/reference_rnn.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr uint64_t kSeed = 7;

std::unique_ptr<Rnn> Create(const RnnTestCase& test_case) {
  auto rnn = Rnn::Create(test_case.options, *MakeSpec(test_case.mlp.input),
                         *MakeSpec(test_case.mlp.output), kSeed);
  EXPECT_THAT(rnn, IsOk());
  return *std::move(rnn);
}

INSTANTIATE_TEST_SUITE_P(Rnn, NetworkConformance, testing::ValuesIn(RnnNetworkCases(Create)),
                         NetworkCaseName);
// RnnReferenceTest takes finite differences of ReLU networks, too, in double precision.
INSTANTIATE_TEST_SUITE_P(Rnn, RecurrentConformance, testing::ValuesIn(RnnRecurrentCases(Create)),
                         RecurrentCaseName);

class RnnReferenceTest : public testing::TestWithParam<RnnTestCase> {};

INSTANTIATE_TEST_SUITE_P(All, RnnReferenceTest, testing::ValuesIn(RnnTestCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(RnnReferenceTest, OutputsAndStatesAgreeWithTheReference) {
  const std::unique_ptr<Rnn> rnn = Create(GetParam());
  const ReferenceRnn reference(GetParam().options, *rnn);
  struct Size {
    int64_t count, length;
  };
  for (const Size size : {Size{1, 1}, Size{1, 9}, Size{8, 3}, Size{9, 4}, Size{35, 5}}) {
    SCOPED_TRACE(absl::StrCat(size.count, " sequences of ", size.length));
    const RandomSequences sequences(*rnn, size.count, size.length, 0.2);
    const BatchBuilder output =
        NormalRows(rnn->output_spec(), size.count * size.length, Rng(kSeed, "rnn_test", 4));
    std::vector<float> states(size.count * size.length * rnn->state_size());
    ASSERT_THAT(rnn->InferSequences(sequences.view, output.view(), absl::MakeSpan(states)), IsOk());
    const ReferenceRnn::Outputs expected = reference.Run(sequences.view);
    // tanh and sigmoid have errors of 3e-7, which accumulate over the steps.
    for (int64_t row = 0; row < size.count * size.length; ++row) {
      const std::vector<double> state(states.begin() + row * rnn->state_size(),
                                      states.begin() + (row + 1) * rnn->state_size());
      ASSERT_THAT(state, testing::Pointwise(testing::DoubleNear(5e-6), expected.states[row]))
          << "row " << row;
      ASSERT_THAT(ReferenceRnn::RowOf(output.view(), row),
                  testing::Pointwise(testing::DoubleNear(1e-5), expected.rows[row]))
          << "row " << row;
    }
  }
}

TEST_P(RnnReferenceTest, GradientsAgreeWithFiniteDifferencesInDoublePrecision) {
  // The reference is exact to 1e-15, so a step of 1e-5 has an error of about 1e-9: the tolerance is
  // for the float32 gradients.
  constexpr double kStep = 1e-5;
  constexpr double kTolerance = 3e-5;
  const std::unique_ptr<Rnn> rnn = Create(GetParam());
  ReferenceRnn reference(GetParam().options, *rnn);
  struct Size {
    int64_t count, length, burn_in;
  };
  for (const Size size : {Size{3, 4, 0}, Size{2, 5, 2}}) {
    SCOPED_TRACE(
        absl::StrCat(size.count, " sequences of ", size.length, ", burn-in ", size.burn_in));
    RandomSequences sequences(*rnn, size.count, size.length, 0.2);
    sequences.view.burn_in = size.burn_in;
    const BatchBuilder output =
        NormalRows(rnn->output_spec(), size.count * size.length, Rng(kSeed, "rnn_test", 4));
    ASSERT_THAT(rnn->ForwardSequences(sequences.view, output.view(), {}), IsOk());
    ASSERT_THAT(rnn->Backward(sequences.d_output.view()), IsOk());
    // The states after burn-in are constants.
    const std::vector<std::vector<double>> warm = reference.StatesAfterBurnIn(sequences.view);
    const auto loss = [&] {
      const ReferenceRnn::Outputs outputs = reference.Run(sequences.view, warm);
      double sum = 0;
      for (int64_t row = 0; row < size.count * size.length; ++row) {
        if (row % size.length < size.burn_in) continue;
        const std::vector<double> weights = ReferenceRnn::RowOf(sequences.d_output.view(), row);
        for (size_t i = 0; i < weights.size(); ++i) sum += outputs.rows[row][i] * weights[i];
      }
      return sum;
    };
    for (const ParameterInfo& info : rnn->parameter_info()) {
      for (int64_t i = info.offset; i < info.offset + NumElements(info.shape); ++i) {
        double& parameter = reference.parameters()[i];
        const double start = parameter;
        parameter = start + kStep;
        const double above = loss();
        parameter = start - kStep;
        const double below = loss();
        parameter = start;
        const double expected = (above - below) / (2 * kStep);
        ASSERT_NEAR(rnn->gradients()[i], expected, kTolerance * std::max(1.0, std::abs(expected)))
            << info.name << "[" << i - info.offset << "]";
      }
    }
  }
}

// RecurrentConformance allows other roundings; this network has none.
TEST_P(RnnReferenceTest, StepsOneByOneGiveTheSameBytesAsTheWholeSequence) {
  constexpr int64_t kCount = 21;
  constexpr int64_t kLength = 30;  // more steps than Infer() runs at once
  const std::unique_ptr<Rnn> rnn = Create(GetParam());
  const RandomSequences sequences(*rnn, kCount, kLength, 0.1);
  const BatchBuilder whole =
      NormalRows(rnn->output_spec(), kCount * kLength, Rng(kSeed, "rnn_test", 4));
  std::vector<float> states(kCount * kLength * rnn->state_size());
  ASSERT_THAT(rnn->InferSequences(sequences.view, whole.view(), absl::MakeSpan(states)), IsOk());
  const BatchBuilder one = NormalRows(rnn->output_spec(), 1, Rng(kSeed, "rnn_test", 5));
  for (int64_t i = 0; i < kCount; ++i) {
    const auto first = sequences.state.begin() + i * rnn->state_size();
    std::vector<float> state(first, first + rnn->state_size());
    for (int64_t row = i * kLength; row < (i + 1) * kLength; ++row) {
      Sequences step;
      step.rows = sequences.view.rows.Slice(row, 1);
      step.state = state;
      step.is_first = sequences.view.is_first.subspan(row, 1);
      ASSERT_THAT(rnn->InferSequences(step, one.view(), absl::MakeSpan(state)), IsOk());
      ASSERT_EQ(absl::MakeConstSpan(state),
                absl::MakeConstSpan(states).subspan(row * rnn->state_size(), rnn->state_size()))
          << "row " << row;
      ASSERT_EQ(ReferenceRnn::RowOf(one.view(), 0), ReferenceRnn::RowOf(whole.view(), row))
          << "row " << row;
    }
  }
}

TEST(RnnTest, ParametersComeFromTheSeed) {
  const RnnTestCase test_case = RnnTestCases()[1];
  const SpecPtr input = *MakeSpec(test_case.mlp.input);
  const SpecPtr output = *MakeSpec(test_case.mlp.output);
  DING_ASSERT_OK_AND_ASSIGN(const auto a, Rnn::Create(test_case.options, input, output, 1));
  DING_ASSERT_OK_AND_ASSIGN(const auto b, Rnn::Create(test_case.options, input, output, 1));
  DING_ASSERT_OK_AND_ASSIGN(const auto c, Rnn::Create(test_case.options, input, output, 2));
  EXPECT_EQ(a->parameters(), b->parameters());
  EXPECT_NE(a->parameters(), c->parameters());
}

TEST(RnnTest, ANanOfOneBatchDoesNotReachTheNextOne) {
  const std::unique_ptr<Rnn> rnn = Create(RnnTestCases()[1]);
  const auto gradients = [&](const RandomSequences& sequences) {
    const BatchBuilder output =
        NormalRows(rnn->output_spec(), sequences.rows.capacity_rows(), Rng(kSeed, "rnn_test", 4));
    EXPECT_THAT(rnn->ForwardSequences(sequences.view, output.view(), {}), IsOk());
    EXPECT_THAT(rnn->Backward(sequences.d_output.view()), IsOk());
    return std::vector<float>(rnn->gradients().begin(), rnn->gradients().end());
  };
  const RandomSequences few(*rnn, 5, 3, 0.2);
  const std::vector<float> expected = gradients(few);
  const RandomSequences broken(*rnn, 16, 3, 0.2);
  for (float& value : broken.rows.column<float>(0)) value = std::nanf("");
  EXPECT_TRUE(std::isnan(gradients(broken)[0]));
  EXPECT_EQ(gradients(few), expected);
}

TEST(RnnTest, StatesAreHAndThenCOfAnLstm) {
  EXPECT_EQ(Create(RnnTestCases()[0])->state_size(), 2 * 4);
  EXPECT_EQ(Create(RnnTestCases()[RnnTestCases().size() / 2])->state_size(), 4);
}

TEST(RnnTest, ReportsEveryProblemAtOnce) {
  RnnOptions options;
  options.hidden_size = 0;
  options.mlp.encoder_hidden_size = {-3};
  EXPECT_THAT(Rnn::Create(options, *MakeSpec({Discrete("obs", 3)}), *MakeSpec({Box("q", {2})}), 0),
              IsInvalid("recurrent.hidden_size is 0", "encoder_hidden_size[0] is -3", "'obs'"));
}

}  // namespace
}  // namespace ding
