// Compares behaviour cloning on the hand-written MLP and on the same MLP as a torch module.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/bc/bc.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

SpecPtr Categories() { return *MakeSpec({MultiDiscrete("action", {2, 3})}); }
SpecPtr Continuous() { return *MakeSpec({Box("action", {2}, {-1}, {1})}); }

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& network, const SpecPtr& action,
                                               uint64_t seed, PolicyModes modes) {
  BcConfig bc;
  bc.mutable_model()->set_type(network);
  bc.mutable_model()->add_encoder_hidden_size(16);
  bc.set_normalize_obs(true);
  PolicyConfig config;
  config.set_type("bc");
  config.mutable_params()->PackFrom(bc);
  return create_policy(config, {VectorObservation(), action, seed, modes});
}

TEST(BcTorch, LearnsTheSameAsOnTheHandWrittenMlp) {
  for (const SpecPtr& action : {Categories(), Continuous()}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto by_hand, Create("mlp", action, 3, PolicyModes()));
    DING_ASSERT_OK_AND_ASSIGN(const auto torch, Create("torch_mlp", action, 3, PolicyModes()));
    std::vector<LearnStep> a, b;
    for (uint64_t i = 0; i < 10; ++i) {
      const Batch batch = MakeTransitionBatch(VectorObservation(), action, 16, i);
      ASSERT_THAT(by_hand->learn_mode()->Forward(batch, {}, &a), IsOk());
      ASSERT_THAT(torch->learn_mode()->Forward(batch, {}, &b), IsOk());
      for (const std::string& name : by_hand->learn_mode()->monitor_vars()) {
        const double expected = *a[0].scalars.Get(name);
        EXPECT_NEAR(*b[0].scalars.Get(name), expected, 1e-4 * (1 + std::abs(expected)))
            << name << ", call " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BcTorch, PolicyConformance,
                         testing::Values(PolicyConformanceCase{
                             "box",
                             [](uint64_t seed, PolicyModes modes) {
                               return Create("torch_mlp", Continuous(), seed, modes);
                             },
                             VectorObservation(), Continuous(), /*learns=*/true,
                             MakeTransitionBatch, kColumnObs}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
