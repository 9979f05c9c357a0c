// What the public functions of this package do with ids, sizes and callbacks that nobody should
// give them. Run it with AddressSanitizer and UndefinedBehaviorSanitizer, too.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/connect_four.h"
#include "ding_worker/env/board_games/tic_tac_toe.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kMinInt = std::numeric_limits<int>::min();
constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

EnvSpec CountSpec() {
  EnvSpec spec;
  spec.name = "Count-v0";
  spec.observation = MakeSpec({Box("obs", {1})}).value();
  spec.action = MakeSpec({Discrete("action", 2)}).value();
  return spec;
}

// An episode has two steps.
class CountEnv : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& /*start*/, const RowRef& obs) override {
    obs.field<float>(0)[0] = static_cast<float>(steps_ = 0);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& /*action*/, const RowRef& obs, StepResult* result) override {
    obs.field<float>(0)[0] = static_cast<float>(++steps_);
    result->terminated = steps_ == 2;
    return absl::OkStatus();
  }

 private:
  const EnvSpec spec_ = CountSpec();
  int steps_ = 0;
};

class EnvMisuse : public testing::Test {
 protected:
  EnvMisuse() : actions_(BatchBuilder::Create(CountSpec().action, 2).value()) {
    const EnvFactory factory = [] { return std::make_unique<CountEnv>(); };
    envs_ = BaseEnvManager::Create({}, {factory, factory}).value();
    EXPECT_THAT(envs_->Launch(), IsOk());
    for (int64_t& action : actions_.column<int64_t>(0)) action = 0;
  }

  absl::Status Step() { return envs_->Step({0, 1}, actions_.view()).status(); }
  // Steps to the end of an episode, in which `function` is called.
  absl::Status StepToTheEnd(std::function<void(int)> function) {
    envs_->set_on_episode_end(std::move(function));
    EXPECT_THAT(Step(), IsOk());
    return Step();
  }

  const BatchBuilder actions_;
  std::unique_ptr<BaseEnvManager> envs_;
};

TEST_F(EnvMisuse, OnEpisodeEnd_CallsThatChangeTheEnvs_AreRefused) {
  std::vector<absl::Status> nested;
  StateDict state;
  std::vector<int> restarted;
  ASSERT_THAT(StepToTheEnd([&](int env_id) {
                if (env_id != 0) return;
                nested.push_back(Step());
                nested.push_back(envs_->Step({1}, actions_.view().Slice(0, 1)).status());
                nested.push_back(envs_->Reset());
                nested.push_back(envs_->Reset({{1, std::nullopt}}));
                nested.push_back(envs_->Launch());
                nested.push_back(envs_->Seed(3, true));
                nested.push_back(envs_->SaveState(&state));
                nested.push_back(envs_->LoadState(&state, &restarted));
              }),
              IsOk());
  ASSERT_EQ(nested.size(), 8u);
  for (const absl::Status& status : nested) {
    EXPECT_THAT(status, IsFailedPrecondition("called from on_episode_end"));
  }
  EXPECT_EQ(envs_->ready_obs().env_ids.size(), 2u);
  EXPECT_THAT(Step(), IsOk());
}

TEST_F(EnvMisuse, OnEpisodeEnd_Throws_IsAnErrorOfTheStep) {
  EXPECT_THAT(StepToTheEnd([](int) { throw std::runtime_error("no disk"); }),
              IsInternal("on_episode_end threw an exception"));
  EXPECT_EQ(envs_->env_state(0), EnvState::kError);
  EXPECT_EQ(envs_->env_state(1), EnvState::kNeedReset);
  envs_->set_on_episode_end(nullptr);
  ASSERT_THAT(envs_->Reset(), IsOk());
  EXPECT_THAT(Step(), IsOk());
}

TEST_F(EnvMisuse, OnEpisodeEnd_ClosesTheManager_IsAnErrorOfTheStep) {
  EXPECT_THAT(StepToTheEnd([this](int) { envs_->Close(); }), IsFailedPrecondition("closed"));
  EXPECT_TRUE(envs_->closed());
  EXPECT_EQ(envs_->env_state(0), EnvState::kVoid);
  EXPECT_THAT(Step(), IsFailedPrecondition());
  envs_->set_on_episode_end(nullptr);
  ASSERT_THAT(envs_->Launch(), IsOk());
  EXPECT_THAT(Step(), IsOk());
}

TEST_F(EnvMisuse, OnEpisodeEnd_ReplacesItself_GoesOn) {
  int calls = 0;
  ASSERT_THAT(StepToTheEnd([&, text = std::string(100, 'x')](int) {
                envs_->set_on_episode_end(nullptr);  // It destroys this function.
                calls += text.size() == 100 ? 1 : 1000;
              }),
              IsOk());
  EXPECT_EQ(calls, 1);
}

TEST_F(EnvMisuse, Manager_IdsAndActionsOutOfRange_AreRefused) {
  for (const int id : {-1, 2, kMinInt, kMaxInt}) {
    EXPECT_THAT(envs_->Step({0, id}, actions_.view()), IsInvalid()) << id;
    EXPECT_THAT(envs_->Reset({{id, std::nullopt}}), IsInvalid()) << id;
    EXPECT_THAT(envs_->Render(id), IsInvalid()) << id;
    EXPECT_DEATH((void)envs_->env_state(id), "there is no env");
  }
  EXPECT_THAT(envs_->Step({0}, actions_.view()), IsInvalid());
  EXPECT_THAT(envs_->Step({0, 0}, actions_.view()), IsInvalid());
  EXPECT_THAT(envs_->Step({}, ColumnsView()), IsOk()) << "a step of no envs, without a spec";
  for (const int64_t action : {int64_t{-1}, int64_t{2}, kMax, -kMax - 1}) {
    actions_.column<int64_t>(0)[1] = action;
    EXPECT_THAT(Step(), IsInvalid()) << action;
  }
  envs_->Close();
  envs_->Close();
  EXPECT_THAT(envs_->Render(0), IsFailedPrecondition());
  EXPECT_THAT(envs_->Reset(), IsFailedPrecondition());
  EXPECT_TRUE(envs_->ready_obs().env_ids.empty());
}

TEST_F(EnvMisuse, Manager_WithoutEnvs_IsRefused) {
  EXPECT_THAT(BaseEnvManager::Create({}, {}), IsInvalid());
  EXPECT_THAT(BaseEnvManager::Create({}, {nullptr}), testing::Not(IsOk()));
  EXPECT_THAT(envs_->Seed(std::vector<uint64_t>(3), true), IsInvalid());
}

TEST_F(EnvMisuse, SavedCounts_NearTheEndOfTheType_AreRefused) {
  StateDict saved;
  ASSERT_THAT(envs_->SaveState(&saved), IsOk());
  for (const char* const name :
       {"length", "episodes_done", "episodes_begun", "abnormal_in_a_row"}) {
    for (const int64_t count : {int64_t{-1}, kMax}) {
      TensorMap tensors;
      for (const auto& [key, tensor] : saved.tensors()) tensors.Set(key, tensor.Clone());
      tensors.FindMutable(name)->mutable_data<int64_t>()[1] = count;
      StateDict damaged(std::move(tensors), "damaged");
      std::vector<int> restarted;
      EXPECT_THAT(envs_->LoadState(&damaged, &restarted), IsInvalid(name));
    }
  }
}

TEST(EnvSpecMisuse, SizesThatAreTooLarge_AreRefused) {
  for (const int64_t components : {int64_t{0}, int64_t{-1}, int64_t{1} << 60, kMax}) {
    EnvSpec spec = CountSpec();
    spec.reward_shape = {components};
    EXPECT_THAT(ValidateEnvSpec(spec), IsInvalid("reward_shape")) << components;
  }
  // A mask of 2^62 categories for each of two elements.
  EnvSpec masked = CountSpec();
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {4};
  masked.observation = MakeSpec({Box("obs/x", {1}), mask}).value();
  FieldSpec action = Discrete("action", kMax);
  action.shape = {1 << 20};
  masked.action = MakeSpec({action}).value();
  EXPECT_THAT(ValidateEnvSpec(masked), IsInvalid("action mask"));
  for (const int players : {-1, 0, kMinInt, kMaxInt}) {
    EXPECT_THAT(GameSpec(CountSpec(), players), IsInvalid()) << players;
  }
}

TEST(EnvSpecMisuseDeathTest, PlayersOutOfRange_EndTheProgramWithASentence) {
  const EnvSpec game = GameSpec(CountSpec(), 2).value();
  for (const int player : {-1, 2, kMinInt, kMaxInt}) {
    EXPECT_DEATH((void)PlayerSpec(game, player), "there is no player");
    EXPECT_DEATH((void)FirstObsField(game, player), "there is no player");
    EXPECT_EQ(ActionMaskField(game, player), -1);
    EXPECT_THAT(CheckSamePlayers(game, player), IsInvalid()) << player;
  }
}

TEST(BoardGamesMisuseDeathTest, MovesSidesAndCellsThatDoNotExist_EndTheProgramWithASentence) {
  for (const int wrong : {-1, 9, kMinInt, kMaxInt}) {
    EXPECT_DEATH(ConnectFour().Play(wrong), "there is no move");
    EXPECT_DEATH((void)ConnectFour().HasWon(wrong), "there is no side");
    EXPECT_DEATH((void)ConnectFour().Has(0, wrong, 0), "there is no cell");
    EXPECT_DEATH(TicTacToe().Play(wrong), "there is no move");
    EXPECT_DEATH((void)TicTacToe().stones(wrong), "there is no side");
    EXPECT_DEATH((void)TicTacToe().Has(1, 0, wrong), "there is no cell");
  }
  Rng rng(1, "misuse");
  EXPECT_DEATH(DrawMove(0, &rng), "fewer moves");
  EXPECT_DEATH(MoveOf(5, 2), "fewer moves");
}

TEST(CheckActionMasksMisuse, IdsMasksAndActionsOutOfRange_AreRefused) {
  EnvSpec spec = CountSpec();
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {2};
  spec.observation = MakeSpec({Box("obs/x", {1}), mask}).value();
  const BatchBuilder obs = BatchBuilder::Create(spec.observation, 2).value();
  for (uint8_t& legal : obs.column<uint8_t>(1)) legal = 1;
  const BatchBuilder actions = BatchBuilder::Create(spec.action, 1).value();
  actions.column<int64_t>(0)[0] = 1;
  ASSERT_THAT(CheckActionMasks(spec, {1}, {1}, actions.view(), obs.view()), IsOk());
  for (const int id : {-1, 2, kMaxInt}) {
    EXPECT_THAT(CheckActionMasks(spec, {1}, {id}, actions.view(), obs.view()), IsInvalid());
  }
  for (const int field : {0, 2, kMaxInt}) {
    EXPECT_THAT(CheckActionMasks(spec, {field}, {0}, actions.view(), obs.view()), IsInvalid());
  }
  EXPECT_THAT(CheckActionMasks(spec, {1, 1}, {0}, actions.view(), obs.view()), IsInvalid());
  EXPECT_THAT(CheckActionMasks(spec, {1}, {0, 1}, actions.view(), obs.view()), IsInvalid());
  for (const int64_t action : {int64_t{-1}, int64_t{2}, kMax, -kMax - 1}) {
    actions.column<int64_t>(0)[0] = action;
    EXPECT_THAT(CheckActionMasks(spec, {1}, {0}, actions.view(), obs.view()), IsInvalid());
  }
}

}  // namespace
}  // namespace ding
