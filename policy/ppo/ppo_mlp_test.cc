// PPO on the networks that it is used with, made by the factories.
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
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

SpecPtr MaskedObservation() {
  return *MakeSpec({Box("obs/a", {2}), ActionMaskSpec(5), Box("obs/b", {2})});
}

struct Space {
  std::string name;
  SpecPtr observation;
  SpecPtr action;
  bool critic;  // of its own
  bool normalize;
};

absl::StatusOr<std::unique_ptr<Policy>> Create(const Space& space, uint64_t seed,
                                               PolicyModes modes) {
  PpoConfig ppo;
  ActorCriticConfig& common = *ppo.mutable_actor_critic();
  // Smooth: finite differences hold.
  common.mutable_model()->set_activation(NetworkConfig::TANH);
  common.mutable_model()->add_encoder_hidden_size(12);
  common.set_entropy_weight(0.05);
  if (!space.action->field(0).is_discrete()) common.set_initial_log_std(-0.5);
  common.set_normalize_obs(space.normalize);
  common.set_scale_reward(space.normalize);
  if (space.critic) *common.mutable_critic() = common.model();
  ppo.set_epoch_per_collect(2);
  ppo.set_value_clip(0.5);
  PolicyConfig config;
  config.set_type("ppo");
  config.set_batch_size(6);  // The last minibatch has fewer.
  config.mutable_params()->PackFrom(ppo);
  return create_policy(config, {space.observation, space.action, seed, modes});
}

std::vector<Space> Spaces() {
  const SpecPtr discrete = *MakeSpec({Discrete("action", 3)});
  const SpecPtr multi = *MakeSpec({MultiDiscrete("action", {2, 3})});
  const SpecPtr box = *MakeSpec({Box("action", {2}, {-1, 0}, {1, 5})});
  return {{"discrete", VectorObservation(), discrete, true, false},
          {"discrete_shared", VectorObservation(), discrete, false, true},
          {"multi_discrete", VectorObservation(), multi, true, false},
          {"multi_discrete_masked", MaskedObservation(), multi, true, true},
          {"box", VectorObservation(), box, true, true},
          {"box_shared", VectorObservation(), box, false, false}};
}

class PpoMlp : public testing::TestWithParam<Space> {};

// The loss of the first minibatch of a call, by the definitions, as a function of all parameters.
TEST_P(PpoMlp, TheGradientAgreesWithFiniteDifferencesThroughLossAndNetworks) {
  constexpr int64_t kRows = 6;  // One minibatch, in the order of the batch.
  DING_ASSERT_OK_AND_ASSIGN(const auto made, Create(GetParam(), 5, PolicyModes()));
  auto* const policy = static_cast<ActorCriticPolicy*>(made.get());
  ActorCritic& networks = policy->actor_critic();
  const Batch batch = MakeOnPolicyBatch(GetParam().observation, GetParam().action, kRows, 9);
  std::vector<std::vector<float>> before;
  for (const ParameterGroup& group : networks.Groups()) {
    before.emplace_back(group.parameters.begin(), group.parameters.end());
  }
  std::vector<float> adv(batch.column<float>("adv").begin(), batch.column<float>("adv").end());
  double mean = 0, variance = 0;
  for (const float value : adv) mean += value / kRows;
  for (const float value : adv) variance += (value - mean) * (value - mean) / kRows;
  const int taken = *batch.spec().Find(networks.distribution().taken_field().name);
  std::vector<float> log_prob(kRows), entropy(kRows), value(kRows);
  const auto loss = [&] {
    EXPECT_THAT(networks.Act(batch.view(), absl::MakeSpan(value)), IsOk());
    networks.distribution().LogProb(batch.view(), taken, absl::MakeSpan(log_prob));
    networks.distribution().Entropy(absl::MakeSpan(entropy));
    double sum = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      const double ratio = std::exp(log_prob[i] - batch.column<float>("log_prob")[i]);
      const double a = (adv[i] - mean) / std::sqrt(variance);
      const double old_value = batch.column<float>("value")[i];
      const double target = batch.column<float>("return")[i];
      const double near = old_value + std::max(-0.5, std::min(0.5, value[i] - old_value));
      sum -= std::min(ratio * a, std::max(0.8, std::min(1.2, ratio)) * a);
      sum += 0.25 * std::max(std::pow(value[i] - target, 2), std::pow(near - target, 2));
      sum -= 0.05 * entropy[i];
    }
    return sum / kRows;
  };
  const double expected_loss = loss();
  // Without a step all epochs have the same gradient.
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {{"lr", 0}}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), expected_loss, 1e-5);
  const double norm = *steps[1].scalars.Get("grad_norm");
  const double clipped = norm > 0.5 ? 0.5 / norm : 1;  // grad_clip_norm
  const std::vector<ParameterGroup> groups = networks.Groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<float> gradient(groups[g].gradients.begin(), groups[g].gradients.end());
    for (size_t i = 0; i < gradient.size(); ++i) {
      constexpr float kStep = 1.0f / 256;
      groups[g].parameters[i] = before[g][i] + kStep;
      const double above = loss();
      groups[g].parameters[i] = before[g][i] - kStep;
      const double below = loss();
      groups[g].parameters[i] = before[g][i];
      EXPECT_NEAR(gradient[i], clipped * (above - below) / (2 * kStep), 3e-3)
          << groups[g].name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, PpoMlp, testing::ValuesIn(Spaces()),
                         [](const auto& info) { return info.param.name; });

std::vector<PolicyConformanceCase> Cases() {
  std::vector<PolicyConformanceCase> cases;
  for (const Space& space : Spaces()) {
    cases.push_back(
        {space.name,
         [space](uint64_t seed, PolicyModes modes) { return Create(space, seed, modes); },
         space.observation, space.action, /*learns=*/true, MakeOnPolicyBatch, kColumnAdvantage});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ppo, PolicyConformance, testing::ValuesIn(Cases()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
