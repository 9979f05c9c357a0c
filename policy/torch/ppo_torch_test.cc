// Compares PPO on the hand-written MLP and on the same MLP as a torch module.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

SpecPtr Action() { return *MakeSpec({Box("action", {2}, {-1}, {1})}); }

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& network, bool critic,
                                               uint64_t seed, PolicyModes modes) {
  PpoConfig ppo;
  ActorCriticConfig& common = *ppo.mutable_actor_critic();
  common.mutable_model()->set_type(network);
  common.mutable_model()->add_encoder_hidden_size(16);
  if (critic) *common.mutable_critic() = common.model();
  ppo.set_epoch_per_collect(2);
  PolicyConfig config;
  config.set_type("ppo");
  config.set_batch_size(6);
  config.mutable_params()->PackFrom(ppo);
  return create_policy(config, {VectorObservation(), Action(), seed, modes});
}

TEST(PpoTorch, LearnsTheSameAsOnTheHandWrittenMlp) {
  for (const bool critic : {false, true}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto by_hand, Create("mlp", critic, 3, PolicyModes()));
    DING_ASSERT_OK_AND_ASSIGN(const auto torch, Create("torch_mlp", critic, 3, PolicyModes()));
    std::vector<LearnStep> a, b;
    for (uint64_t i = 0; i < 5; ++i) {
      const Batch batch = MakeOnPolicyBatch(VectorObservation(), Action(), 16, i);
      ASSERT_THAT(by_hand->learn_mode()->Forward(batch, {}, &a), IsOk());
      ASSERT_THAT(torch->learn_mode()->Forward(batch, {}, &b), IsOk());
      ASSERT_EQ(a.size(), b.size());
      for (size_t step = 0; step < a.size(); ++step) {
        for (const std::string& name : by_hand->learn_mode()->monitor_vars()) {
          const double expected = *a[step].scalars.Get(name);
          EXPECT_NEAR(*b[step].scalars.Get(name), expected, 1e-4 * (1 + std::abs(expected)))
              << name << ", call " << i << ", step " << step;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    PpoTorch, PolicyConformance,
    testing::Values(PolicyConformanceCase{
        "separate",
        [](uint64_t seed, PolicyModes modes) { return Create("torch_mlp", true, seed, modes); },
        VectorObservation(), Action(), /*learns=*/true, MakeOnPolicyBatch, kColumnAdvantage}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
