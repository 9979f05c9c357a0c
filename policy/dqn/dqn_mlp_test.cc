// DQN on the network that it is used with: an MLP with a dueling head, made by the factories.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kActions = 3;

SpecPtr Observation() { return *MakeSpec({Box("obs", {4})}); }
SpecPtr Action() { return *MakeSpec({Discrete("action", kActions)}); }

absl::StatusOr<std::unique_ptr<Policy>> Create(bool dueling, uint64_t seed, PolicyModes modes) {
  DqnConfig dqn;
  dqn.mutable_model()->add_encoder_hidden_size(16);
  dqn.mutable_model()->add_encoder_hidden_size(8);
  dqn.mutable_model()->set_dueling(dueling);
  dqn.mutable_model()->set_activation(NetworkConfig::TANH);  // Smooth: finite differences hold.
  dqn.set_target_update_freq(4);
  PolicyConfig config;
  config.set_type("dqn");
  config.set_priority(true);
  config.mutable_params()->PackFrom(dqn);
  return create_policy(config, {Observation(), Action(), seed, modes});
}

// Column `name` of `batch` as observations of their own.
Batch ObservationColumn(const Batch& batch, const char* name) {
  BatchBuilder builder = *BatchBuilder::Create(Observation(), batch.rows());
  const absl::Span<const float> source = batch.column<float>(name);
  std::copy(source.begin(), source.end(), builder.column<float>(0).begin());
  return std::move(builder).Seal(batch.rows());
}

class DqnMlp : public testing::TestWithParam<bool> {};

TEST_P(DqnMlp, TheGradientAgreesWithFiniteDifferencesThroughLossAndNetwork) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(GetParam(), 5, PolicyModes()));
  Network& network = static_cast<DqnPolicy*>(policy.get())->network();
  const Batch batch = MakeTransitionBatch(Observation(), Action(), 16, 9);
  const std::vector<float> before(network.parameters().begin(), network.parameters().end());
  const BatchBuilder q = *BatchBuilder::Create(network.output_spec(), 16);
  const absl::Span<const float> values = q.column<float>(0);
  const absl::Span<const int64_t> action = batch.column<int64_t>("action");

  // At the first iteration the target network is the network itself.
  const Batch next_obs = ObservationColumn(batch, "next_obs");
  ASSERT_THAT(network.Infer(next_obs.view(), q.view()), IsOk());
  std::vector<float> next_value(16);
  SelectMaxValue(values, kActions, absl::MakeSpan(next_value));

  const Batch obs = ObservationColumn(batch, "obs");
  const auto loss = [&] {
    EXPECT_THAT(network.Infer(obs.view(), q.view()), IsOk());
    double sum = 0;
    for (int64_t row = 0; row < 16; ++row) {
      const double target = batch.column<float>("reward")[row] +
                            batch.column<float>("discount")[row] * next_value[row];
      sum += std::pow(values[row * kActions + action[row]] - target, 2);
    }
    return sum / 16;
  };
  std::vector<LearnStep> steps;
  const double expected_loss = loss();
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), expected_loss, 1e-5);

  const std::vector<float> gradient(network.gradients().begin(), network.gradients().end());
  const absl::Span<float> live = network.parameters();
  std::copy(before.begin(), before.end(), live.begin());
  for (size_t i = 0; i < live.size(); ++i) {
    constexpr float kStep = 1.0f / 128;
    live[i] = before[i] + kStep;
    const double above = loss();
    live[i] = before[i] - kStep;
    const double below = loss();
    live[i] = before[i];
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-3) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, DqnMlp, testing::Bool(),
                         [](const auto& info) { return info.param ? "Dueling" : "Plain"; });

INSTANTIATE_TEST_SUITE_P(
    DqnMlp, PolicyConformance,
    testing::Values(PolicyConformanceCase{
        "dueling", [](uint64_t seed, PolicyModes modes) { return Create(true, seed, modes); },
        Observation(), Action()}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
