// Tests of parallel runs with envs whose rewards have several components, and with asymmetric games: what
// collectors will send, and what is refused before the run begins.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/objectives_env.h"
#include "ding_worker/env/testing/pursuit_env.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/random_policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/parallel_run/expected_data.h"
#include "ding_worker/worker/parallel_run/parallel_envs.h"
#include "ding_worker/worker/parallel_run/parallel_setup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;

class EnvKindsTest : public testing::Test {
 protected:
  static ExperimentConfig Config(const std::string& name,
                                 const std::vector<std::string>& settings) {
    return LoadExperimentConfig("worker/configs/" + name, settings).value();
  }
  // Returns why the coordinator of a run cannot be made.
  static absl::Status Refusal(const std::string& name, const std::vector<std::string>& settings) {
    ComponentDeps deps;
    return MakeCoordinator(Config(name, settings), "run", deps, /*store=*/nullptr,
                           /*sender=*/nullptr, /*journal=*/nullptr)
        .status();
  }

  const ScopedRegistration<EnvCreator> objectives_{
      &EnvRegistry(), "objectives", [](const EnvConfig&) { return ObjectivesEnv::Factory({2})(); }};
  const ScopedRegistration<EnvCreator> pursuit_{
      &EnvRegistry(), "pursuit", [](const EnvConfig&) { return PursuitEnv::Create(); }};
};

TEST_F(EnvKindsTest, LearnersExpectTheComponents) {
  const ObjectivesEnv env({2});
  RandomPolicyOptions options;
  options.action = env.spec().action;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateRandomPolicy(options));
  DING_ASSERT_OK_AND_ASSIGN(const CollectedLayout layout,
                            LayoutOfCollected(env.spec(), policy->collect_mode()));
  ASSERT_NE(layout.rows, nullptr);
  EXPECT_EQ(layout.rows->field(*layout.rows->Find("reward")), Box("reward", {2}));
}

TEST_F(EnvKindsTest, PoliciesOfOneRewardAreRefusedWithoutWeights) {
  const std::string name = "cartpole_dqn_parallel_fast.textproto";
  EXPECT_THAT(Refusal(name, {"env.type=objectives"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("policy 'dqn' learns from one reward per step, but the reward of "
                                 "env 'Objectives' is float32[2]: set env.reward_weights")));
  DING_ASSERT_OK_AND_ASSIGN(
      const EnvSpec weighted,
      SpecOfEnv(Config(name, {"env.type=objectives", "env.reward_weights=[1, 0.5]"}),
                Clock::Real()));
  EXPECT_TRUE(weighted.reward_shape.empty());
}

TEST_F(EnvKindsTest, AsymmetricGamesAreRefusedInLeagues) {
  EXPECT_THAT(
      Refusal("tictactoe_league_parallel.textproto", {"env.type=pursuit"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("one policy cannot play all players of env 'Pursuit', which see or "
                         "do different things: 'obs' is float32[3] for player 0, missing "
                         "for player 1")));
}

}  // namespace
}  // namespace ding
