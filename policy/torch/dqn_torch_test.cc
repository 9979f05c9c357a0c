// Compares DQN on the hand-written MLP and on the same MLP as a torch module.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

struct Case {
  const char* name;
  bool dueling;
  bool double_q;
};

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& network, const Case& setup,
                                               uint64_t seed, PolicyModes modes) {
  DqnConfig dqn;
  dqn.mutable_model()->set_type(network);
  dqn.mutable_model()->add_encoder_hidden_size(32);
  dqn.mutable_model()->add_encoder_hidden_size(16);
  dqn.mutable_model()->set_dueling(setup.dueling);
  dqn.set_double_dqn(setup.double_q);
  dqn.set_target_update_freq(7);
  PolicyConfig config;
  config.set_type("dqn");
  config.set_priority(true);
  config.mutable_params()->PackFrom(dqn);
  return create_policy(config, {VectorObservation(), DiscreteAction(), seed, modes});
}

// A policy and its values to compare.
struct Side {
  Side(const std::string& network, const Case& setup)
      : policy(*Create(network, setup, /*seed=*/3, PolicyModes())) {}

  Network& network() { return static_cast<DqnPolicy*>(policy.get())->network(); }
  std::vector<float> Parameters() {
    const absl::Span<float> live = network().parameters();
    return {live.begin(), live.end()};
  }
  void Learn(const Batch& batch) {
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  }

  std::unique_ptr<Policy> policy;
  std::vector<LearnStep> steps;
};

// Returns the transitions as terminated ones.
Batch WithoutBootstrap(const Batch& batch) {
  BatchBuilder builder = *BatchBuilder::Create(batch.spec_ptr(), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  const absl::Span<float> discount = builder.column<float>(*batch.spec().Find("discount"));
  std::fill(discount.begin(), discount.end(), 0.0f);
  return std::move(builder).Seal(batch.rows());
}

float LargestMagnitude(absl::Span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

class DqnTorch : public testing::TestWithParam<Case> {};

TEST_P(DqnTorch, UpdatesAreEqualFromEqualParameters) {
  Side mlp("mlp", GetParam());
  Side torch("torch_mlp", GetParam());
  ASSERT_EQ(mlp.Parameters(), torch.Parameters()) << "the same seed gives the same network";
  for (uint64_t iter = 0; iter < 20; ++iter) {
    // Adam divides by the size of the gradient, so tiny differences would grow with each update.
    StateDict state;
    ASSERT_THAT(mlp.policy->learn_mode()->SaveModel(&state), IsOk());
    ASSERT_THAT(mlp.policy->learn_mode()->SaveTrainState(&state), IsOk());
    ASSERT_THAT(torch.policy->learn_mode()->LoadModel(&state), IsOk());
    ASSERT_THAT(torch.policy->learn_mode()->LoadTrainState(&state), IsOk());

    const Batch batch = MakeTransitionBatch(VectorObservation(), DiscreteAction(), 32, iter);
    mlp.Learn(batch);
    torch.Learn(batch);
    EXPECT_NEAR(*mlp.steps[0].scalars.Get("total_loss"), *torch.steps[0].scalars.Get("total_loss"),
                1e-5);
    for (size_t i = 0; i < mlp.steps[0].priority.size(); ++i) {
      EXPECT_NEAR(mlp.steps[0].priority[i], torch.steps[0].priority[i], 1e-5) << "row " << i;
    }
    const absl::Span<const float> gradient = mlp.network().gradients();
    const float largest = LargestMagnitude(gradient);
    ASSERT_GT(largest, 0);
    const std::vector<float> parameters = mlp.Parameters();
    const std::vector<float> torch_parameters = torch.Parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_NEAR(gradient[i], torch.network().gradients()[i], 1e-5 * largest)
          << "parameter " << i << ", iteration " << iter;
      if (std::abs(gradient[i]) < 1e-3 * largest) continue;
      // A hundredth of the largest step, the learning rate 1e-3.
      ASSERT_NEAR(parameters[i], torch_parameters[i], 1e-5)
          << "parameter " << i << ", iteration " << iter;
    }
  }
}

TEST_P(DqnTorch, LearnsOnBothNetworks) {
  // Without bootstrap, because bootstrapping from random transitions may diverge.
  for (const char* network : {"mlp", "torch_mlp"}) {
    Side side(network, GetParam());
    const Batch batch =
        WithoutBootstrap(MakeTransitionBatch(VectorObservation(), DiscreteAction(), 16, 1));
    side.Learn(batch);
    const double before = *side.steps[0].scalars.Get("total_loss");
    for (int i = 0; i < 500; ++i) side.Learn(batch);
    EXPECT_LT(*side.steps[0].scalars.Get("total_loss"), 0.3 * before) << network;
  }
}

constexpr Case kCases[] = {{"DuelingDouble", true, true}, {"PlainHeadPlainQ", false, false}};

INSTANTIATE_TEST_SUITE_P(Kinds, DqnTorch, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(DqnTorch, PolicyConformance,
                         testing::Values(PolicyConformanceCase{
                             "torch_mlp",
                             [](uint64_t seed, PolicyModes modes) {
                               return Create("torch_mlp", kCases[0], seed, modes);
                             },
                             VectorObservation(), DiscreteAction()}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
