#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kState = 3;

std::unique_ptr<LeakyNetwork> MakeLeaky() {
  return std::make_unique<LeakyNetwork>(VectorObservation(), *MakeSpec({Box("q", {2})}), kState,
                                        /*seed=*/1);
}

// Two sequences of four rows, the second with a row that begins an episode.
struct TwoSequences {
  TwoSequences() {
    sequences.rows = input.view();
    sequences.length = 4;
    sequences.state = state;
    sequences.is_first = is_first;
  }

  const Batch input = MakeObservationBatch(VectorObservation(), 8, /*seed=*/1);
  const std::vector<float> state = {0.1f, -0.2f, 0.3f, 0.4f, -0.5f, 0.6f};
  const std::vector<uint8_t> is_first = {0, 0, 0, 0, 0, 0, 1, 0};
  const BatchBuilder output = *BatchBuilder::Create(*MakeSpec({Box("q", {2})}), 8);
  Sequences sequences;
};

TEST(LeakyNetwork, ASequenceIsItsRowsOneAfterTheOther) {
  const auto network = MakeLeaky();
  TwoSequences two;
  std::vector<float> states(8 * kState);
  ASSERT_THAT(network->InferSequences(two.sequences, two.output.view(), absl::MakeSpan(states)),
              IsOk());
  std::vector<float> state;
  for (int64_t row = 0; row < 8; ++row) {
    if (row % 4 == 0) {
      const auto stored = two.sequences.state.subspan(row / 4 * kState, kState);
      state.assign(stored.begin(), stored.end());
    }
    if (two.is_first[row] != 0) state.assign(kState, 0.0f);
    Sequences one;
    one.rows = two.input.view().Slice(row, 1);
    one.state = state;
    const BatchBuilder q = *BatchBuilder::Create(network->output_spec(), 1);
    ASSERT_THAT(network->InferSequences(one, q.view(), absl::MakeSpan(state)), IsOk());
    EXPECT_EQ(absl::MakeConstSpan(state),
              absl::MakeConstSpan(states).subspan(row * kState, kState));
    for (int64_t a = 0; a < 2; ++a) {
      EXPECT_EQ(q.column<float>(0)[a], two.output.column<float>(0)[row * 2 + a]);
    }
  }
}

TEST(LeakyNetwork, TheGradientThroughTimeAgreesWithFiniteDifferences) {
  const auto network = MakeLeaky();
  TwoSequences two;
  BatchBuilder d_output = *BatchBuilder::Create(network->output_spec(), 8);
  double weight = -0.7;
  for (float& d : d_output.column<float>(0)) d = static_cast<float>(weight += 0.1);
  ASSERT_THAT(network->ForwardSequences(two.sequences, two.output.view(), {}), IsOk());
  ASSERT_THAT(network->Backward(d_output.view()), IsOk());
  const auto loss = [&] {
    EXPECT_THAT(network->InferSequences(two.sequences, two.output.view(), {}), IsOk());
    double sum = 0;
    for (int i = 0; i < 16; ++i) {
      sum += double{two.output.column<float>(0)[i]} * d_output.column<float>(0)[i];
    }
    return sum;
  };
  for (size_t i = 0; i < network->parameters().size(); ++i) {
    constexpr float kStep = 1.0f / 64;
    float& parameter = network->parameters()[i];
    const float before = parameter;
    parameter = before + kStep;
    const double above = loss();
    parameter = before - kStep;
    const double below = loss();
    parameter = before;
    EXPECT_NEAR(network->gradients()[i], (above - below) / (2 * kStep), 1e-3) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Leaky, NetworkConformance,
                         testing::Values(NetworkCase{"leaky", MakeLeaky}), NetworkCaseName);

}  // namespace
}  // namespace ding
