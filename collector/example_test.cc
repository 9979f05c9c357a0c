// The example of docs/reference/collector.md.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/serial/self_play_collector.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_policy.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

absl::StatusOr<double> CollectAndJudge(Policy* policy) {
  const std::vector<EnvFactory> factories(8, [] { return CreateCartPole("CartPole-v0", 200); });
  DING_ASSIGN_OR_RETURN(const auto collect_envs, BaseEnvManager::Create({}, factories));
  DING_RETURN_IF_ERROR(collect_envs->Seed(0, /*dynamic=*/true));
  DING_ASSIGN_OR_RETURN(const auto collector,
                        SampleSerialCollector::Create({}, collect_envs.get(),
                                                      policy->collect_mode(), ComponentDeps()));

  DING_ASSIGN_OR_RETURN(const auto eval_envs, BaseEnvManager::Create({}, factories));
  DING_RETURN_IF_ERROR(eval_envs->Seed(100, /*dynamic=*/false));
  InteractionSerialEvaluator::Options judge;
  judge.n_episode = 8;
  judge.stop_value = 195;
  DING_ASSIGN_OR_RETURN(const auto evaluator,
                        InteractionSerialEvaluator::Create(judge, eval_envs.get(),
                                                           policy->eval_mode(), ComponentDeps()));

  for (int64_t train_iter = 0;; ++train_iter) {
    if (evaluator->ShouldEval(train_iter)) {
      EvalOptions options;
      options.train_iter = train_iter;
      options.envstep = collector->envstep();
      DING_ASSIGN_OR_RETURN(const EvalResult result, evaluator->Eval(options));
      if (result.stop || train_iter > 0) return result.mean_return;
    }
    CollectOptions options;
    options.target = 64;
    options.train_iter = train_iter;
    DING_ASSIGN_OR_RETURN(const SegmentBatch data, collector->Collect(options));
    // buffer->Push(data, collector->envstep()), and learn.
  }
}

// One policy plays both sides of `games` and learns from the rows of both.
absl::StatusOr<BattleData> PlayAgainstItself(Policy* policy, EnvManager* games) {
  CollectMode* const player = policy->collect_mode();
  DING_ASSIGN_OR_RETURN(const auto collector, BattleSampleSerialCollector::Create(
                                                  {}, games, {player, player}, ComponentDeps()));
  CollectOptions options;
  options.target = 64;
  return collector->Collect(options);
}

// Likewise as an ISerialCollector, whose rows are the choices of all players.
absl::StatusOr<SegmentBatch> TrainingDataOfSelfPlay(Policy* policy, EnvManager* games) {
  const auto make = [](EnvManager* env, const std::vector<CollectMode*>& seats) {
    return BattleSampleSerialCollector::Create({}, env, seats, ComponentDeps());
  };
  DING_ASSIGN_OR_RETURN(
      const auto collector,
      SelfPlayCollector::Create(make, games, policy->collect_mode(), "self-play"));
  CollectOptions options;
  options.target = 64;
  return collector->Collect(options);
}

TEST(CollectorExampleTest, RandomActionsDoNotBalanceThePole) {
  DING_ASSERT_OK_AND_ASSIGN(const auto env, CreateCartPole("CartPole-v0", 200));
  RandomPolicyOptions options;
  options.action = env->spec().action;
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy, CreateRandomPolicy(options));
  const absl::StatusOr<double> mean_return = CollectAndJudge(policy.get());
  ASSERT_THAT(mean_return, IsOk());
  EXPECT_GT(*mean_return, 8);
  EXPECT_LT(*mean_return, 60);
}

TEST(CollectorExampleTest, BothPlayersGetTheirRows) {
  FakeEnvManager::Options game;
  game.players = 2;
  FakeEnvManager games(game);
  RandomPolicyOptions options;
  options.action = PlayerSpec(games.env_spec()).action;
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy, CreateRandomPolicy(options));
  DING_ASSERT_OK_AND_ASSIGN(const BattleData data, PlayAgainstItself(policy.get(), &games));
  EXPECT_EQ(data.players[0].size(), 64);
  EXPECT_EQ(data.players[1].size(), 64);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch rows, TrainingDataOfSelfPlay(policy.get(), &games));
  EXPECT_EQ(rows.size(), 128) << "without an action mask every row is a choice";
}

}  // namespace
}  // namespace ding
