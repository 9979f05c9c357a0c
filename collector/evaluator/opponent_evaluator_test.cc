#include "ding_worker/collector/evaluator/opponent_evaluator.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/board_games/board_game_env.h"
#include "ding_worker/env/board_games/tic_tac_toe.h"
#include "ding_worker/env/env.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/random_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

absl::StatusOr<std::unique_ptr<IBattleEvaluator>> Games(EnvManager* env,
                                                        const std::vector<EvalMode*>& seats) {
  BattleInteractionSerialEvaluator::Options options;
  options.n_episode = 30;
  options.eval_freq = 10;
  return BattleInteractionSerialEvaluator::Create(options, env, seats, ComponentDeps());
}

RandomPolicyOptions RandomPlayer(const EnvSpec& player) {
  RandomPolicyOptions options;
  options.action = player.action;
  options.observation = player.observation;
  return options;
}

class OpponentEvaluatorTest : public testing::Test {
 protected:
  // Envs that play the same episodes in each evaluation.
  OpponentEvaluatorTest() {
    const std::vector<EnvFactory> factories(3, [] { return CreateBoardGame<TicTacToe>({}); });
    games_ = *BaseEnvManager::Create({}, factories);
    EXPECT_THAT(games_->Seed(uint64_t{0}, /*dynamic=*/false), IsOk());
    random_ = RandomPlayer(PlayerSpec(games_->env_spec()));
  }
  absl::StatusOr<std::unique_ptr<OpponentEvaluator>> Create(EvalMode* policy) {
    const auto opponent = [this]() -> absl::StatusOr<std::shared_ptr<Policy>> {
      ++opponents_;
      if (!no_opponent_.ok()) return no_opponent_;
      return CreateRandomPolicy(random_);
    };
    return OpponentEvaluator::Create(Games, opponent, games_.get(), policy, "evaluator");
  }

  std::unique_ptr<EnvManager> games_;
  RandomPolicyOptions random_;
  int opponents_ = 0;
  absl::Status no_opponent_;
};

TEST_F(OpponentEvaluatorTest, EvaluatesPlayerZeroAgainstTheSameOpponent) {
  // Each evaluation creates a new opponent, so results are equal if the opponent plays the same.
  std::vector<std::vector<double>> returns;
  std::unique_ptr<OpponentEvaluator> evaluator;
  for (int i = 0; i < 2; ++i) {
    const std::unique_ptr<Policy> policy = *CreateRandomPolicy(random_);
    if (evaluator == nullptr) {
      evaluator = *Create(policy->eval_mode());
    } else {
      ASSERT_THAT(evaluator->ResetPolicy(policy->eval_mode()), IsOk());
    }
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, evaluator->Eval({}));
    EXPECT_THAT(result.episode_return, SizeIs(30));
    double sum = 0;
    for (const double value : result.episode_return) sum += value;
    EXPECT_NEAR(result.mean_return, sum / 30, 1e-12);
    EXPECT_FALSE(result.stop);
    returns.push_back(result.episode_return);
    ASSERT_THAT(evaluator->ResetPolicy(policy->eval_mode()), IsOk());
  }
  EXPECT_EQ(returns[0], returns[1]);
  EXPECT_GE(opponents_, 3);
}

TEST_F(OpponentEvaluatorTest, TheOpponentHasAllOtherSeats) {
  FakeEnvManager::Options options;
  options.players = 3;
  FakeEnvManager games(options);
  FakePolicy ours;
  const auto other = std::make_shared<FakePolicy>();
  class OnlyEval : public Policy {
   public:
    explicit OnlyEval(EvalMode* eval) : eval_(eval) {}
    CollectMode* collect_mode() override { return nullptr; }
    LearnMode* learn_mode() override { return nullptr; }
    EvalMode* eval_mode() override { return eval_; }
    CommandMode* command_mode() override { return nullptr; }

   private:
    EvalMode* const eval_;
  };
  const auto opponent = [&]() -> absl::StatusOr<std::shared_ptr<Policy>> {
    return std::make_shared<OnlyEval>(other.get());
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            OpponentEvaluator::Create(Games, opponent, &games, &ours, "evaluator"));
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, evaluator->Eval({}));
  EXPECT_GT(ours.rows, 0);
  EXPECT_EQ(other->rows, 2 * ours.rows);
  EXPECT_EQ(games.events()[0].action, 0) << "of player 0, who counts for itself";
  EXPECT_THAT(result.episode_return, SizeIs(30));
}

TEST_F(OpponentEvaluatorTest, IsDueAtItsFrequencyAlsoAfterAResume) {
  const std::unique_ptr<Policy> policy = *CreateRandomPolicy(random_);
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator, Create(policy->eval_mode()));
  EXPECT_TRUE(evaluator->ShouldEval(0));
  EXPECT_FALSE(evaluator->ShouldEval(9));
  EXPECT_TRUE(evaluator->ShouldEval(10));
  StateDict state;
  ASSERT_THAT(evaluator->SaveState(&state), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto resumed, Create(policy->eval_mode()));
  ASSERT_THAT(resumed->LoadState(&state), IsOk());
  EXPECT_FALSE(resumed->ShouldEval(10));
  EXPECT_TRUE(resumed->ShouldEval(20));
  ASSERT_THAT(resumed->Reset(nullptr, nullptr), IsOk());
  EXPECT_TRUE(resumed->ShouldEval(0));
  ASSERT_THAT(resumed->ResetEnv(games_.get()), IsOk());
}

TEST_F(OpponentEvaluatorTest, RefusesPartsThatDoNotFit) {
  const std::unique_ptr<Policy> policy = *CreateRandomPolicy(random_);
  const auto none = []() -> absl::StatusOr<std::shared_ptr<Policy>> { return nullptr; };
  FakeEnvManager for_one((FakeEnvManager::Options()));
  const auto create = [&](EnvManager* env, EvalMode* eval) {
    return OpponentEvaluator::Create(Games, none, env, eval, "evaluator").status();
  };
  EXPECT_THAT(create(nullptr, policy->eval_mode()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no env manager")));
  EXPECT_THAT(create(games_.get(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no policy")));
  EXPECT_THAT(create(&for_one, policy->eval_mode()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 1 player, expected a game of at least 2")));
  no_opponent_ = absl::NotFoundError("gone");
  EXPECT_THAT(Create(policy->eval_mode()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("evaluator, opponent: gone")));
  no_opponent_ = absl::OkStatus();
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator, Create(policy->eval_mode()));
  EvalOptions filmed;
  filmed.force_render = true;
  EXPECT_THAT(evaluator->Eval(filmed),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("games are not filmed")));
}

}  // namespace
}  // namespace ding
