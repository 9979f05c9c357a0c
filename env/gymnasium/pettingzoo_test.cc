// Games of Python with PettingZoo's parallel interface: their spaces, rewards, masks and ends,
// agents that leave early, exact resume, errors, and the conformance suite.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/env/gymnasium/testing_envs.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInternal = absl::StatusCode::kInternal;

GymnasiumConfig GameConfig(absl::string_view game, absl::string_view kwargs = "") {
  return TestEnvConfig(absl::StrCat("games:", game), kwargs);
}

absl::StatusOr<std::unique_ptr<EnvManager>> Create(const GymnasiumConfig& config) {
  return CreatePettingZooEnvs(TwoPerProcess(), config, 2);
}

std::unique_ptr<EnvManager> Launched(const GymnasiumConfig& config) {
  std::unique_ptr<EnvManager> envs = Create(config).value();
  EXPECT_THAT(envs->Seed(std::vector<uint64_t>{4, 5}, /*dynamic=*/false), IsOk());
  EXPECT_THAT(envs->Launch(), IsOk());
  return envs;
}

// Both envs make the same picks, one per player.
absl::StatusOr<const Timesteps*> Pick(EnvManager* envs, int64_t red, int64_t blue) {
  std::vector<int64_t> of_red = {red, red};
  std::vector<int64_t> of_blue = {blue, blue};
  std::byte* const columns[] = {reinterpret_cast<std::byte*>(of_red.data()),
                                reinterpret_cast<std::byte*>(of_blue.data())};
  return envs->Step({0, 1}, ColumnsView(envs->env_spec().action.get(), columns, 0, 2));
}

template <typename T>
std::vector<T> Field(const ColumnsView& rows, int64_t row, absl::string_view name) {
  const int field = rows.spec().IndexOf(name, "the rows").value();
  const absl::Span<const T> values = rows.row(row).field<T>(field);
  return {values.begin(), values.end()};
}

TEST(PettingZooTest, EachAgentIsAPlayer) {
  const std::unique_ptr<EnvManager> envs = Launched(GameConfig("Duel"));
  EXPECT_EQ(envs->env_spec().players, 2);
  EXPECT_EQ(envs->env_spec().action->field(1).name, "action/1");
  // The first env has seed 4, the second one 5: red may not pick seed % 4.
  ColumnsView obs = envs->ready_obs().obs;
  EXPECT_THAT(Field<uint8_t>(obs, 0, "obs/0/action_mask"), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(Field<uint8_t>(obs, 1, "obs/0/action_mask"), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(Field<uint8_t>(obs, 1, "obs/1/action_mask"), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Field<float>(obs, 1, "obs/1/observation"), ElementsAre(1, 0));
  EXPECT_THAT(Pick(envs.get(), 1, 2).status(), IsInvalid());

  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* steps, Pick(envs.get(), 3, 2));
  EXPECT_THAT(steps->reward, ElementsAre(1, 1));
  EXPECT_THAT(steps->other_rewards, ElementsAre(-1, -1));
  EXPECT_THAT(Field<float>(envs->ready_obs().obs, 0, "obs/0/observation"), ElementsAre(2, 1));
  EXPECT_EQ(envs->Render(0)->rgb[0], 1);
  DING_ASSERT_OK_AND_ASSIGN(steps, Pick(envs.get(), 1, 3));
  EXPECT_THAT(steps->other_rewards, ElementsAre(1, 1));
  DING_ASSERT_OK_AND_ASSIGN(steps, Pick(envs.get(), 3, 2));
  EXPECT_THAT(steps->truncated, ElementsAre(1, 1));
  EXPECT_THAT(steps->terminated, ElementsAre(0, 0));
  ASSERT_EQ(steps->finished.size(), 2);
  EXPECT_EQ(steps->finished[0].episode_return, 1);
  EXPECT_THAT(steps->finished[0].other_returns, ElementsAre(-1));
  EXPECT_EQ(steps->finished[0].info.Get("blue/picked"), 2);
  EXPECT_THAT(Field<float>(steps->final_obs, 0, "obs/1/observation"), ElementsAre(3, 3));
  // The next episode begins, and a tie ends it.
  EXPECT_THAT(Field<float>(envs->ready_obs().obs, 0, "obs/1/observation"), ElementsAre(0, 0));
  DING_ASSERT_OK_AND_ASSIGN(steps, Pick(envs.get(), 2, 2));
  EXPECT_THAT(steps->terminated, ElementsAre(1, 1));
}

TEST(PettingZooTest, Step_ThatIsAbnormalForOneAgent_IsVoid) {
  const std::unique_ptr<EnvManager> envs = Launched(GameConfig("Duel", "{\"abnormal_pick\": 3}"));
  ASSERT_THAT(Pick(envs.get(), 2, 1).status(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Pick(envs.get(), 1, 3));
  EXPECT_THAT(steps->abnormal, ElementsAre(1, 1));
  EXPECT_THAT(steps->other_rewards, ElementsAre(0, 0));
  EXPECT_TRUE(steps->finished.empty());
  EXPECT_THAT(Field<float>(envs->ready_obs().obs, 0, "obs/0/observation"), ElementsAre(-1, 0));
}

TEST(PettingZooTest, FinalObs_OfAGameThatResetsItself_IsItsOwn) {
  for (const char* kwargs : {R"({})", R"({"key": "final_observation"})", R"({"of_all": true})"}) {
    SCOPED_TRACE(kwargs);
    const std::unique_ptr<EnvManager> envs = Launched(GameConfig("ResetsItself", kwargs));
    ASSERT_THAT(Pick(envs.get(), 3, 2).status(), IsOk());
    ASSERT_THAT(Pick(envs.get(), 1, 3).status(), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Pick(envs.get(), 3, 2));
    ASSERT_EQ(steps->finished.size(), 2u);
    EXPECT_THAT(Field<float>(steps->final_obs, 0, "obs/0/observation"), ElementsAre(2, 3));
    EXPECT_THAT(Field<float>(steps->final_obs, 0, "obs/1/observation"), ElementsAre(3, 3));
    EXPECT_EQ(steps->finished[0].info.Get("red/score"), 7);
    EXPECT_EQ(steps->finished[0].info.size(), 2u) << "only the scores";
  }
}

TEST(PettingZooTest, AnAgentThatLeavesKeepsItsObservationAndGetsNothing) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Env> game,
                            CreatePettingZooEnv(GameConfig("Knockout")));
  EXPECT_EQ(game->spec().players, 3);
  DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder row, ZeroedRows(game->spec().observation, 1));
  DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder action, ZeroedRows(game->spec().action, 1));
  ASSERT_THAT(game->Reset({7, {}}, row.view().row(0)), IsOk());
  StateDict saved;
  for (int step = 1; step <= 4; ++step) {
    StepResult result;
    ClearStepResult(game->spec(), &result);
    ASSERT_THAT(game->Step(ColumnsView(action.view()).row(0), row.view().row(0), &result), IsOk());
    const auto now = static_cast<float>(step);
    EXPECT_EQ(result.reward, step <= 2 ? 10 * now : 0);
    EXPECT_THAT(result.other_rewards, ElementsAre(step <= 3 ? 10 * now + 1 : 0, 10 * now + 2));
    const auto end_of = [step](int64_t last) {
      return step == last ? PlayerEnd::kTerminated : PlayerEnd::kNone;
    };
    EXPECT_THAT(result.player_ends, ElementsAre(end_of(2), end_of(3), end_of(4)));
    EXPECT_THAT(Field<float>(row.view(), 0, "obs/0"), ElementsAre(std::min(now, 2.0f)));
    EXPECT_THAT(Field<float>(row.view(), 0, "obs/2"), ElementsAre(now, now, now));
    EXPECT_EQ(result.terminated, step == 4);
    if (step == 2) {
      ASSERT_THAT(game->SaveState(&saved), IsOk());
    }
  }
  // Another process goes on with the agents that are left.
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Env> other,
                            CreatePettingZooEnv(GameConfig("Knockout")));
  ASSERT_THAT(other->LoadState(&saved), IsOk());
  StepResult result;
  ClearStepResult(other->spec(), &result);
  ASSERT_THAT(other->Step(ColumnsView(action.view()).row(0), row.view().row(0), &result), IsOk());
  EXPECT_EQ(result.reward, 0);
  EXPECT_THAT(result.other_rewards, ElementsAre(31, 32));
}

TEST(PettingZooTest, DeclaredInfosOfAgentsAreColumns) {
  GymnasiumConfig config = GameConfig("Knockout");
  config.add_info("a/step: int64");
  config.add_info("b/place: float64[2]");
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Env> game, CreatePettingZooEnv(config));
  ASSERT_NE(game->spec().info, nullptr);
  EXPECT_EQ(game->spec().info->DebugString(), "info/a/step: int64[]\ninfo/b/place: float64[2]");
  DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder row, ZeroedRows(game->spec().observation, 1));
  DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder action, ZeroedRows(game->spec().action, 1));
  ASSERT_THAT(game->Reset({7, {}}, row.view().row(0)), IsOk());
  for (int step = 1; step <= 4; ++step) {
    StepResult result;
    ClearStepResult(game->spec(), &result);
    ASSERT_THAT(game->Step(ColumnsView(action.view()).row(0), row.view().row(0), &result), IsOk());
    const double place = step <= 3 ? step + 0.5 : 0;  // Agent a leaves in step 2, b in step 3.
    EXPECT_EQ(result.info_row.field<int64_t>(0)[0], step <= 2 ? step : 0);
    EXPECT_THAT(result.info_row.field<double>(1), ElementsAre(place, place));
  }
}

TEST(PettingZooTest, InfosThatAreNotAsDeclaredAreRefused) {
  GymnasiumConfig config = GameConfig("Knockout", R"({"deed": "tell less"})");
  config.add_info("step: int64");
  EXPECT_THAT(CreatePettingZooEnv(config).status(),
              IsInvalid("declares info/step, expected info/AGENT/NAME", "['a', 'b', 'c']"));
  config.set_info(0, "b/step: int64");
  const std::unique_ptr<EnvManager> envs = Launched(config);
  DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder actions, ZeroedRows(envs->env_spec().action, 2));
  EXPECT_THAT(envs->Step({0, 1}, actions.view()).status(), IsOk());
  EXPECT_THAT(envs->Step({0, 1}, actions.view()).status(),
              IsError(kInternal, "the info of a step has no 'b/step'"));
}

TEST(PettingZooTest, SaysWhatIsWrong) {
  GymnasiumConfig by_id = GameConfig("Duel");
  by_id.set_id("Duel-v0");
  EXPECT_THAT(Create(by_id).status(), IsInvalid("PettingZoo has no ids"));
  EXPECT_THAT(Create(TestEnvConfig("cartpole:CartPole")).status(),
              IsInvalid("has no 'possible_agents'"));
  EXPECT_THAT(Create(GameConfig("Knockout", R"({"deed": "alone"})")).status(),
              IsInvalid("expected at least 2"));
  const auto failure = [](absl::string_view deed) -> absl::Status {
    absl::StatusOr<std::unique_ptr<Env>> game =
        CreatePettingZooEnv(GameConfig("Knockout", absl::StrCat(R"({"deed": ")", deed, "\"}")));
    if (!game.ok()) return game.status();
    const BatchBuilder row = ZeroedRows((*game)->spec().observation, 1).value();
    const BatchBuilder action = ZeroedRows((*game)->spec().action, 1).value();
    const absl::Status reset = (*game)->Reset({7, {}}, row.view().row(0));
    if (!reset.ok()) return reset;
    for (int step = 0; step < 3; ++step) {
      StepResult result;
      ClearStepResult((*game)->spec(), &result);
      DING_RETURN_IF_ERROR(
          (*game)->Step(ColumnsView(action.view()).row(0), row.view().row(0), &result));
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(failure("text"), IsError(kInternal, "is a str (no)", "expected a bool"));
  EXPECT_THAT(failure("no infos"), IsError(kInternal, "the info is a NoneType"));
  EXPECT_THAT(failure("pay the dead"), IsError(kInternal,
                                               "the reward of 'a' is 1, but it has ended in an "
                                               "earlier step"));
  EXPECT_THAT(Create(GameConfig("InTurns")).status(), IsInvalid("pettingzoo.AECEnv"));
  EXPECT_THAT(std::string(failure("fewer").message()), HasSubstr("'c'"));
  EXPECT_THAT(std::string(failure("hide").message()), HasSubstr("also of 'b'"));
  EXPECT_THAT(std::string(failure("pay").message()), HasSubstr("the reward of 'c'"));
}

EnvConformanceCase Case(const std::string& name) {
  return {name, [name] { return CreatePettingZooEnv(GameConfig(name)); }};
}

INSTANTIATE_TEST_SUITE_P(PettingZoo, EnvConformance,
                         testing::Values(Case("Duel"), Case("Knockout")), EnvConformanceName);

}  // namespace
}  // namespace ding
