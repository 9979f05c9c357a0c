// Tests of parallel runs with envs whose rewards have several components, and with asymmetric
// games: what collectors will send, and what is refused before the run begins. What
// docs/reference/parallel.md says is refused is refused.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/game_envs.h"
#include "ding_worker/env/testing/objectives_env.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/random_policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/tasks/task_config.h"
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

// A policy of one's own that has no modes, whatever it is asked for.
class NoModes : public Policy {
 public:
  CollectMode* collect_mode() override { return nullptr; }
  LearnMode* learn_mode() override { return nullptr; }
  EvalMode* eval_mode() override { return nullptr; }
  CommandMode* command_mode() override { return nullptr; }
};

TEST_F(EnvKindsTest, APolicyThatDoesNotCollectAloneIsRefused) {
  const ScopedRegistration<PolicyCreator> registration(
      &PolicyRegistry(), "together",
      [](const PolicyConfig&, const PolicyContext&) -> absl::StatusOr<std::unique_ptr<Policy>> {
        return std::make_unique<NoModes>();
      });
  EXPECT_THAT(
      Refusal("cartpole_dqn_parallel_fast.textproto", {"policy.type=together"}),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("policy 'together' makes no collect mode for the process of a collector")));
}

TEST_F(EnvKindsTest, AsymmetricGamesAreRefusedInLeagues) {
  EXPECT_THAT(
      Refusal("tictactoe_league_parallel.textproto", {"env.type=pursuit"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("one policy cannot play all players of env 'Pursuit', which see or "
                         "do different things: 'obs' is float32[3] for player 0, missing "
                         "for player 1")));
}

// A row of the table below "## Limits" in docs/reference/parallel.md.
struct Limit {
  std::string refused;  // the first cell of the row
  std::string config;   // below worker/configs, without the ending
  std::vector<std::string> settings;
  std::string sentence;  // part of the error
};

// Returns the first cells of the first table below "## Limits", without those of the two lines of
// its head.
std::vector<std::string> RefusedByThePage(const std::string& page) {
  std::vector<std::string> refused;
  const std::vector<std::string> parts = absl::StrSplit(page, "\n## Limits\n");
  if (parts.size() != 2) return refused;
  for (const absl::string_view line : absl::StrSplit(parts[1], '\n')) {
    if (!absl::StartsWith(line, "|")) {
      if (refused.empty()) continue;
      break;
    }
    refused.push_back(std::vector<std::string>(absl::StrSplit(line.substr(2), " | "))[0]);
  }
  if (refused.size() >= 2) refused.erase(refused.begin(), refused.begin() + 2);
  return refused;
}

TEST_F(EnvKindsTest, WhatThePageListsAsRefusedIsRefused) {
  const std::string ppo =
      "policy.params={[type.googleapis.com/ding.PpoConfig]{actor_critic{"
      "model{encoder_hidden_size:8}}}}";
  const std::string episodes = "policy.other.replay_buffer={type:\"episode\"}";
  const std::vector<Limit> limits = {
      {"a league with an on-policy policy",
       "tictactoe_league_parallel",
       {"policy.type=ppo", ppo},
       "a league, but policy 'ppo' is on-policy"},
      {"a league in an env that is no game of two players",
       "tictactoe_league_parallel",
       {"env.type=TicTacToe-vs-random"},
       "has 1 player, expected a game of 2"},
      {"several learning tasks with several learners each",
       "cartpole_dqn_parallel_fast",
       {"policy.learn.learner_num=2", "policy.other.commander.learner_task_space=2"},
       "each of several learning tasks has one learner"},
      {"a buffer of type `episode` without `policy.collect.n_episode`",
       "cartpole_masked_r2d2_parallel",
       {episodes},
       "draws whole episodes: expected policy.collect.n_episode"},
      {"a buffer of type `sequence` or `episode` in games",
       "tictactoe_league_parallel",
       {"policy.collect.n_episode=1", episodes},
       "expected a type that draws those"},
      {"a buffer that does not report removed items, such as `hindsight`",
       "cartpole_dqn_parallel_fast",
       {"policy.other.replay_buffer={type:\"hindsight\"}"},
       "which does not tell which items leave it"},
      {"a `mem:` store",
       "cartpole_dqn_parallel_fast",
       {"system.store_url=mem:x"},
       "memory of one process"},
      {"`policy.collect.overlap`",
       "cartpole_dqn_parallel_fast",
       {"policy.collect.overlap=true"},
       "policy.collect.overlap is true, which has no effect in a parallel run"},
  };
  std::vector<std::string> names;
  for (const Limit& limit : limits) {
    SCOPED_TRACE(limit.refused);
    names.push_back(limit.refused);
    const std::string name = absl::StrCat(limit.config, ".textproto");
    EXPECT_THAT(FindParallelProblems(Config(name, {})), testing::IsEmpty());
    // As `parallel` does: it asks for the problems of the config first, and then makes the
    // coordinator.
    std::string error = absl::StrJoin(FindParallelProblems(Config(name, limit.settings)), "\n");
    if (error.empty()) error = std::string(Refusal(name, limit.settings).message());
    EXPECT_THAT(error, HasSubstr(limit.sentence));
  }
  DING_ASSERT_OK_AND_ASSIGN(const std::string page, ReadFile("docs/reference/parallel.md"));
  EXPECT_THAT(RefusedByThePage(page), testing::ElementsAreArray(names));
}

}  // namespace
}  // namespace ding
