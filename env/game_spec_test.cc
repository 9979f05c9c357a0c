#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "ding_worker/env/testing/game_envs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

constexpr int kPlayers = 3;
constexpr int64_t kActions = 4;

EnvSpec OnePlayer() {
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {kActions};
  EnvSpec spec;
  spec.name = "Numbers";
  spec.observation = *MakeSpec({Box("obs/mine", {1}), mask});
  spec.action = *MakeSpec({Discrete("action", kActions)});
  return spec;
}

// A game of three steps. Each player sees 100 * player + step and gets the reward (player + 1) *
// action; action p is illegal for player p. Player 1 gets `bad_reward` in the second step.
class Numbers : public Env {
 public:
  explicit Numbers(float bad_reward) : spec_(*GameSpec(OnePlayer(), kPlayers)), bad_(bad_reward) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& /*start*/, const RowRef& obs) override {
    step_ = 0;
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++step_;
    Show(obs);
    result->reward = static_cast<float>(action.scalar<int64_t>(0));
    for (int p = 1; p < kPlayers; ++p) {
      result->other_rewards[static_cast<size_t>(p - 1)] =
          static_cast<float>((p + 1) * action.scalar<int64_t>(p));
    }
    if (step_ == 2 && bad_ != 0) result->other_rewards[0] = bad_;
    result->terminated = step_ == 3;
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    return writer->WriteInt("step", step_);
  }
  absl::Status LoadState(StateReader* reader) override {
    absl::StatusOr<int64_t> step = reader->ReadInt("step");
    if (step.ok()) step_ = *step;
    return step.status();
  }

 private:
  void Show(const RowRef& obs) const {
    for (int p = 0; p < kPlayers; ++p) {
      obs.field<float>(2 * p)[0] = static_cast<float>(100 * p + step_);
      for (int64_t a = 0; a < kActions; ++a) obs.field<uint8_t>(2 * p + 1)[a] = a == p ? 0 : 1;
    }
  }

  const EnvSpec spec_;
  const float bad_;
  int64_t step_ = 0;
};

std::unique_ptr<BaseEnvManager> Manager(int envs, float bad_reward = 0) {
  std::vector<EnvFactory> factories(static_cast<size_t>(envs),
                                    [bad_reward]() -> absl::StatusOr<std::unique_ptr<Env>> {
                                      return std::make_unique<Numbers>(bad_reward);
                                    });
  auto manager = *BaseEnvManager::Create({}, std::move(factories));
  EXPECT_THAT(manager->Launch(), IsOk());
  return manager;
}

// The actions of all players, env by env.
Batch Actions(const EnvManager& manager, const std::vector<std::vector<int64_t>>& of_env) {
  auto rows = *BatchBuilder::Create(manager.env_spec().action, static_cast<int64_t>(of_env.size()));
  for (size_t i = 0; i < of_env.size(); ++i) {
    for (int p = 0; p < kPlayers; ++p) {
      rows.column<int64_t>(p)[i] = of_env[i][static_cast<size_t>(p)];
    }
  }
  return std::move(rows).Seal(static_cast<int64_t>(of_env.size()));
}

TEST(GameSpecTest, PlayerSpecInvertsGameSpec) {
  DING_ASSERT_OK_AND_ASSIGN(const EnvSpec game, GameSpec(OnePlayer(), 2));
  EXPECT_EQ(game.players, 2);
  std::vector<std::string> names;
  for (const FieldSpec& field : game.observation->fields()) names.push_back(field.name);
  EXPECT_THAT(names,
              ElementsAre("obs/0/mine", "obs/0/action_mask", "obs/1/mine", "obs/1/action_mask"));
  EXPECT_EQ(game.action->field(1).name, "action/1");
  EXPECT_THAT(ValidateEnvSpec(game), IsOk());
  EXPECT_EQ(ActionMaskField(game, 1), 3);

  const EnvSpec player = PlayerSpec(game);
  EXPECT_EQ(player.players, 1);
  EXPECT_EQ(*player.observation, *OnePlayer().observation);
  EXPECT_EQ(*player.action, *OnePlayer().action);
  EXPECT_EQ(*PlayerSpec(player).observation, *player.observation);
}

TEST(GameSpecTest, PlayerSpecInvertsGameSpecOfAPlainObs) {
  EnvSpec one = OnePlayer();
  one.observation = *MakeSpec({Box("obs", {2})});
  DING_ASSERT_OK_AND_ASSIGN(const EnvSpec game, GameSpec(one, 2));
  EXPECT_EQ(game.observation->field(1).name, "obs/1");
  EXPECT_EQ(*PlayerSpec(game).observation, *one.observation);
}

TEST(GameSpecTest, RefusesInvalidPlayersAndSpecs) {
  EXPECT_THAT(GameSpec(OnePlayer(), 1),
              IsInvalid("env 'Numbers': a game of 1 player, expected at least 2"));
  EXPECT_THAT(GameSpec(OnePlayer(), 0), IsInvalid());
  EnvSpec nothing = OnePlayer();
  nothing.action = nullptr;
  EXPECT_THAT(GameSpec(nothing, 2), IsInvalid());
  EXPECT_THAT(GameSpec({OnePlayer(), *GameSpec(OnePlayer(), 2)}),
              IsInvalid("a game whose player 1 is 2 players, expected that each is 1"));
  EnvSpec objectives = OnePlayer();
  objectives.reward_shape = {2};
  EXPECT_THAT(GameSpec(objectives, 2),
              IsInvalid("a game of 2 players with reward_shape [2], expected []"));
}

TEST(GameSpecTest, ValidationNamesWhatIsMissing) {
  const auto with_fields = [](EnvSpec game, std::vector<FieldSpec> fields) {
    game.observation = *MakeSpec(std::move(fields));
    return ValidateEnvSpec(game);
  };
  const EnvSpec game = *GameSpec(OnePlayer(), 2);
  EXPECT_THAT(with_fields(game, {Box("obs/0/mine", {1})}),
              IsInvalid("there are observation fields of 1 players, expected 'obs/1' or "
                        "'obs/1/<name>' after them: there are 2 players"));
  EXPECT_THAT(with_fields(game, {Box("obs/1/mine", {1}), Box("obs/0/mine", {1})}),
              IsInvalid("observation field 'obs/1/mine' must be named 'obs/0'"));
  EXPECT_THAT(
      with_fields(game, {Box("obs/0", {1}), Box("obs/1/mine", {1}), Box("obs/0/more", {1})}),
      IsInvalid("observation field 'obs/0/more' must be named 'obs/1'"));
  EnvSpec other = game;
  other.action = *MakeSpec({Discrete("action/0", kActions), Discrete("action/2", kActions)});
  EXPECT_THAT(ValidateEnvSpec(other), IsInvalid("action field 'action/2', expected 'action/1'"));
  other.action = *MakeSpec({Discrete("action/0", kActions), Discrete("action/1", 5)});
  EXPECT_THAT(ValidateEnvSpec(other), IsInvalid("'obs/1/action_mask'"));
  other = game;
  other.players = 3;
  EXPECT_THAT(ValidateEnvSpec(other), IsInvalid("for each of 3 players"));
}

INSTANTIATE_TEST_SUITE_P(Pursuit, EnvConformance,
                         testing::Values(EnvConformanceCase{"game", PursuitEnv::Create}),
                         EnvConformanceName);

TEST(AsymmetricGameTest, EachPlayerHasItsSpec) {
  const PursuitEnv env;
  const EnvSpec& game = env.spec();
  EXPECT_EQ(game.players, 2);
  for (const auto& [player, expected] :
       {std::pair(0, PursuitEnv::Pursuer()), std::pair(1, PursuitEnv::Evader())}) {
    const EnvSpec found = PlayerSpec(game, player);
    EXPECT_EQ(*found.observation, *expected.observation);
    EXPECT_EQ(*found.action, *expected.action);
  }
  EXPECT_EQ(FirstObsField(game, 0), 0);
  EXPECT_EQ(FirstObsField(game, 1), 1);
  EXPECT_EQ(ActionMaskField(game, 0), -1);
  EXPECT_EQ(ActionMaskField(game, 1), 2);
  EXPECT_THAT(CheckSamePlayers(game), IsInvalid());
  EXPECT_THAT(CheckSamePlayers(game, /*first=*/1), IsOk());
  EXPECT_THAT(CheckSamePlayers(PursuitEnv::Evader()), IsOk());
  EXPECT_THAT(CheckSamePlayers(*GameSpec(OnePlayer(), 3)), IsOk());
}

TEST(AsymmetricGameTest, TheOrderOfFieldsIsADifference) {
  EnvSpec a = OnePlayer();
  a.observation = *MakeSpec({Box("obs/x", {1}), Box("obs/y", {1})});
  EnvSpec b = a;
  b.observation = *MakeSpec({Box("obs/y", {1}), Box("obs/x", {1})});
  EXPECT_THAT(CheckSamePlayers(*GameSpec({a, b})),
              IsInvalid("field 0 is 'obs/x' for player 0, 'obs/y' for player 1"));
}

// Only the evader has a mask.
TEST(AsymmetricGameTest, TheMaskOfOnePlayerIsChecked) {
  const auto manager = *BaseEnvManager::Create({}, {PursuitEnv::Create});
  ASSERT_THAT(manager->Launch(), IsOk());
  const EnvSpec& spec = manager->env_spec();
  bool refused = false;
  for (int i = 0; i < 40 && !refused; ++i) {
    auto actions = *BatchBuilder::Create(spec.action, 1);
    actions.column<float>(0)[0] = 0;
    actions.column<int64_t>(1)[0] = 2;  // up to the end of the line
    const absl::Status status = manager->Step({0}, actions.view()).status();
    if (status.ok()) continue;
    EXPECT_THAT(status, IsInvalid("env 0: action/1 2 is not legal: its observation "
                                  "'obs/1/action_mask' forbids it"));
    refused = true;
  }
  EXPECT_TRUE(refused);
}

TEST(GameTest, EveryPlayerActsObservesAndIsRewarded) {
  const auto manager = Manager(2);
  const EnvSpec player = PlayerSpec(manager->env_spec());
  DING_ASSERT_OK_AND_ASSIGN(
      const Timesteps* const first,
      manager->Step({0, 1}, Actions(*manager, {{1, 2, 3}, {3, 0, 1}}).view()));
  EXPECT_THAT(first->reward, ElementsAre(1, 3));
  EXPECT_THAT(first->other_rewards, ElementsAre(4, 9, 0, 3));
  const ReadyObs ready = manager->ready_obs();
  for (int p = 0; p < kPlayers; ++p) {
    const ColumnsView seen =
        PlayerObs(ready.obs, player.observation.get(), FirstObsField(manager->env_spec(), p));
    EXPECT_THAT(seen.column<float>(0), ElementsAre(100 * p + 1, 100 * p + 1));
    EXPECT_EQ(seen.spec().field(0).name, "obs/mine");
  }
  for (int i = 0; i < 2; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(
        const Timesteps* const next,
        manager->Step({0, 1}, Actions(*manager, {{1, 2, 3}, {3, 0, 1}}).view()));
    if (i == 0) continue;
    ASSERT_EQ(next->finished.size(), 2);
    EXPECT_EQ(next->finished[1].episode_return, 9);
    EXPECT_THAT(next->finished[1].other_returns, ElementsAre(0, 9));
    EXPECT_THAT(next->finished[0].other_returns, ElementsAre(12, 27));
  }
}

TEST(GameTest, AMaskedActionIsAnErrorBeforeAnyStep) {
  const auto manager = Manager(2);
  EXPECT_THAT(manager->Step({0, 1}, Actions(*manager, {{1, 2, 3}, {1, 1, 1}}).view()),
              IsInvalid("env 1: action/1 1 is not legal: its observation "
                        "'obs/1/action_mask' forbids it"));
  EXPECT_THAT(manager->Step({0, 1}, Actions(*manager, {{1, 2, 4}, {1, 0, 1}}).view()),
              IsInvalid("env 0: action/2 4 is not legal, expected"));
  DING_ASSERT_OK_AND_ASSIGN(
      const Timesteps* const steps,
      manager->Step({0, 1}, Actions(*manager, {{1, 2, 3}, {1, 0, 1}}).view()));
  EXPECT_EQ(steps->reward.size(), 2);
}

TEST(GameTest, ANonFiniteRewardNamesThePlayer) {
  const auto manager = Manager(1, std::numeric_limits<float>::infinity());
  const Batch actions = Actions(*manager, {{1, 2, 3}});
  ASSERT_THAT(manager->Step({0}, actions.view()), IsOk());
  EXPECT_THAT(manager->Step({0}, actions.view()), IsInternal("the reward of player 1 is inf"));
}

TEST(GameTest, ReturnsOfAllPlayersContinueAfterLoading) {
  const auto manager = Manager(1);
  const Batch actions = Actions(*manager, {{1, 2, 3}});
  ASSERT_THAT(manager->Step({0}, actions.view()), IsOk());
  StateDict saved;
  ASSERT_THAT(manager->SaveState(&saved), IsOk());
  const auto loaded = Manager(1);
  std::vector<int> restarted;
  ASSERT_THAT(loaded->LoadState(&saved, &restarted), IsOk());
  EXPECT_THAT(restarted, ElementsAre());
  ASSERT_THAT(loaded->Step({0}, actions.view()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const last, loaded->Step({0}, actions.view()));
  EXPECT_THAT(last->finished[0].other_returns, ElementsAre(12, 27));
}

INSTANTIATE_TEST_SUITE_P(Knockout, EnvConformance,
                         testing::Values(EnvConformanceCase{"game", KnockoutEnv::Create}),
                         EnvConformanceName);

using MakeManager = std::function<absl::StatusOr<std::unique_ptr<EnvManager>>(EnvFactory)>;

class PlayerEndsTest : public testing::TestWithParam<std::pair<std::string, MakeManager>> {
 protected:
  // An env in which player p has the role (seed + p) % 3.
  static std::unique_ptr<EnvManager> Manager(uint64_t seed, float paid_after_the_end = 0) {
    auto manager = GetParam().second([=]() -> absl::StatusOr<std::unique_ptr<Env>> {
      return std::make_unique<KnockoutEnv>(paid_after_the_end);
    });
    EXPECT_THAT(manager, IsOk());
    EXPECT_THAT((*manager)->Seed(seed, /*dynamic=*/false), IsOk());
    EXPECT_THAT((*manager)->Launch(), IsOk());
    return *std::move(manager);
  }
  // Players in the game choose action 1, the others an illegal one.
  static absl::StatusOr<const Timesteps*> Step(EnvManager* manager) {
    std::vector<int64_t> actions;
    for (int p = 0; p < kPlayers; ++p) actions.push_back(manager->plays(0, p) ? 1 : -7);
    return manager->Step({0}, Actions(*manager, {actions}).view());
  }
};

INSTANTIATE_TEST_SUITE_P(
    All, PlayerEndsTest,
    testing::Values(std::pair("Base", MakeManager([](EnvFactory env) {
                                return BaseEnvManager::Create({}, {std::move(env)});
                              })),
                    std::pair("AsyncThread", MakeManager([](EnvFactory env) {
                                return CreateAsyncThreadEnvManager({}, {std::move(env)});
                              })),
                    std::pair("Subprocess", MakeManager([](EnvFactory env) {
                                return CreateSubprocessEnvManager({}, {std::move(env)});
                              }))),
    [](const auto& info) { return std::string(info.param.first); });

TEST_P(PlayerEndsTest, EachPlayerEndsInItsStepAndTheGameWithTheLastOne) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const std::unique_ptr<EnvManager> manager = Manager(seed);
    for (int episode = 0; episode < 2; ++episode) {
      for (int64_t step = 1; step <= KnockoutEnv::kSteps; ++step) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", step " << step);
        DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get()));
        std::vector<int> ended;
        for (int p = 0; p < kPlayers; ++p) {
          const auto role = static_cast<int64_t>((seed + p) % kPlayers);
          const bool over = step == KnockoutEnv::kSteps;
          EXPECT_EQ(manager->plays(0, p), over || step < KnockoutEnv::StepsOf(role));
          if (step != KnockoutEnv::StepsOf(role)) continue;
          const size_t i = ended.size();
          ended.push_back(p);
          ASSERT_EQ(steps->ended_players.size(), 1);
          EXPECT_EQ(steps->ended_players[i].player, p);
          EXPECT_EQ(steps->ended_players[i].terminated, role == 1);
          EXPECT_THAT(steps->ended_obs.row(0).field<float>(2 * p), ElementsAre(step, role, 0));
        }
        EXPECT_EQ(steps->ended_players.size(), ended.size());
        EXPECT_EQ(steps->finished.size(), step == KnockoutEnv::kSteps ? 1 : 0);
        EXPECT_EQ(steps->truncated[0], step == KnockoutEnv::kSteps ? 1 : 0);
        if (steps->finished.empty()) continue;
        std::vector<double> returns = {steps->finished[0].episode_return};
        for (const double other : steps->finished[0].other_returns) returns.push_back(other);
        for (int p = 0; p < kPlayers; ++p) {
          const uint64_t role = (seed + static_cast<uint64_t>(p)) % kPlayers;
          EXPECT_EQ(returns[static_cast<size_t>(p)], role == 0 ? 3 : role == 1 ? -1 : 1.5);
        }
      }
    }
  }
}

TEST_P(PlayerEndsTest, ASavedGameGoesOnWithoutThePlayersThatEnded) {
  const std::unique_ptr<EnvManager> manager = Manager(0);
  ASSERT_THAT(Step(manager.get()), IsOk());
  StateDict saved;
  ASSERT_THAT(manager->SaveState(&saved), IsOk());
  const std::unique_ptr<EnvManager> loaded = Manager(1);
  std::vector<int> restarted;
  ASSERT_THAT(loaded->LoadState(&saved, &restarted), IsOk());
  EXPECT_THAT(restarted, ElementsAre());
  for (int p = 0; p < kPlayers; ++p) EXPECT_EQ(loaded->plays(0, p), p != 1);
  for (int64_t step = 2; step <= KnockoutEnv::kSteps; ++step) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(loaded.get()));
    EXPECT_EQ(steps->finished.size(), step == KnockoutEnv::kSteps ? 1 : 0);
  }
  // A reset in the middle of a game brings all players back.
  ASSERT_THAT(Step(loaded.get()), IsOk());
  ASSERT_THAT(loaded->Reset(), IsOk());
  for (int p = 0; p < kPlayers; ++p) EXPECT_TRUE(loaded->plays(0, p));
}

TEST_P(PlayerEndsTest, ARewardAfterThePlayersEndIsAnError) {
  const std::unique_ptr<EnvManager> manager = Manager(0, /*paid_after_the_end=*/4);
  ASSERT_THAT(Step(manager.get()), IsOk());
  EXPECT_THAT(Step(manager.get()),
              IsInternal("env 0 (Knockout): at step 2 of its episode the reward of player "
                         "1, which ended before, is 4, expected 0"));
}

}  // namespace
}  // namespace ding
