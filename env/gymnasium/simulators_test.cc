// Envs that do what simulators do (testdata/simulators.py): they have processes of their own, parse
// arguments, need a display, a port, or seeds of 32 bits, reset themselves, are debugged, and say
// in many forms what is legal.
#include <algorithm>
#include <cmath>
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
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/env/gymnasium/testing_envs.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

GymnasiumConfig Simulator(absl::string_view name, absl::string_view kwargs = "") {
  return TestEnvConfig(absl::StrCat("simulators:", name), kwargs);
}

EnvConfig Around(const std::string& text) {
  EnvConfig around;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &around));
  return around;
}

// A manager of two envs in a process that has begun their episodes.
absl::StatusOr<std::unique_ptr<EnvManager>> Begin(const GymnasiumConfig& config,
                                                  const EnvConfig& around = {}) {
  absl::StatusOr<std::unique_ptr<EnvManager>> manager =
      CreateGymnasiumEnvs(TwoPerProcess(), config, 2, WrappersOf(around), around);
  if (!manager.ok()) return manager.status();
  const absl::Status launched = (*manager)->Launch();
  if (!launched.ok()) return launched;
  return manager;
}

// Makes the steps of an episode.
void ExpectAnEpisode(EnvManager* manager) {
  for (int i = 0; i < 4; ++i) ASSERT_THAT(StepReady(manager), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager));
  EXPECT_THAT(steps->truncated, ElementsAre(1, 1));
}

TEST(SimulatorsTest, EachEnvIsBuiltOnceAndWithoutARenderMode) {
  const std::string where = absl::StrCat(FreshTestFolder(), "/built");
  const GymnasiumConfig config =
      Simulator("Screen", absl::StrCat(R"({"display": false, "where": ")", where, R"("})"));
  for (int i = 0; i < 2; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(config));
    ExpectAnEpisode(manager.get());
  }
  DING_ASSERT_OK_AND_ASSIGN(const std::string built, ReadFile(where));
  // One probe for both managers, whose configs are the same, and two envs of each.
  std::string expected;
  for (int i = 0; i < 5; ++i) absl::StrAppend(&expected, "render_mode=None\n");
  EXPECT_EQ(built, expected);
}

TEST(SimulatorsTest, ARenderModeIsForPictures) {
  const EnvConfig pictures = Around("use { pictures: true }");
  const std::string kwargs = absl::StrCat(R"({"where": ")", FreshTestFolder(), R"(/built"})");
  for (const GymnasiumConfig& config : {Simulator("Screen", kwargs), Simulator("NoRenderMode")}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(config, pictures));
    DING_ASSERT_OK_AND_ASSIGN(const Image image, manager->Render(1));
    EXPECT_EQ(image.width, 3);
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto plain, Begin(Simulator("Screen", kwargs)));
  EXPECT_THAT(plain->Render(0).status(),
              IsError(absl::StatusCode::kUnimplemented, R"("render_mode": "rgb_array")"));
}

TEST(SimulatorsTest, MetadataMayHaveNoRenderModes) {
  for (const char* use : {"", "use { pictures: true }"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(Simulator("NoModes"), Around(use)));
    ExpectAnEpisode(manager.get());
  }
}

// The module itself parses sys.argv.
TEST(SimulatorsTest, MultiprocessingWorksWithEveryStartMethod) {
  for (const char* method : {"fork", "spawn", "forkserver"}) {
    SCOPED_TRACE(method);
    DING_ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<EnvManager> manager,
        Begin(Simulator("Pool", absl::StrCat(R"({"method": ")", method, R"("})"))));
    ExpectAnEpisode(manager.get());
  }
}

TEST(SimulatorsTest, AnEnvKnowsItsRoleAndNumber) {
  const std::string where = FreshTestFolder();
  const GymnasiumConfig config = Simulator(
      "Numbered",
      absl::StrCat(R"({"role": "{env_role}", "number": "{env_number}", )",
                   R"("path": "{env_role}-{7000+env_number}.log", "where": ")", where, R"("})"));
  EnvConfig around = Around("use { role: 'evaluator' number: 8 probe_number: 12 }");
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(config, around));
    EXPECT_EQ(manager->ready_obs().obs.row(0).field<float>(0)[0], 8);
    EXPECT_EQ(manager->ready_obs().obs.row(1).field<float>(0)[0], 9);
  }
  DING_ASSERT_OK_AND_ASSIGN(const std::string numbers, ReadFile(absl::StrCat(where, "/numbers")));
  EXPECT_EQ(numbers,
            "probe 12 probe-7012.log\nevaluator 8 evaluator-7008.log\n"
            "evaluator 9 evaluator-7009.log\n");
}

TEST(SimulatorsTest, AnUnknownPlaceholderIsRefused) {
  for (const char* placeholder : {"{env_nubmer}", "port {env_number+7000}", "{env_number*2}"}) {
    EXPECT_THAT(Begin(Simulator("Numbered", absl::StrCat(R"({"number": ")", placeholder, R"("})"))),
                IsInvalid(placeholder, "{15000+env_number}"));
  }
}

TEST(SimulatorsTest, ADebuggerIsToldHowToDebug) {
  for (const char* by : {"breakpoint", "pdb", "input"}) {
    SCOPED_TRACE(by);
    DING_ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<EnvManager> manager,
        Begin(Simulator("Debugged", absl::StrCat(R"({"by": ")", by, R"("})"))));
    for (int i = 0; i < 2; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk());
    EXPECT_THAT(StepReady(manager.get()).status().ToString(), HasSubstr("Debug one env alone"));
  }
}

TEST(SimulatorsTest, TheLastObservationOfAnEnvThatResetsItselfIsTheFinalOne) {
  for (const char* kwargs : {"", R"({"key": "final_observation"})", R"({"of_vector": true})"}) {
    SCOPED_TRACE(kwargs);
    DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(Simulator("ResetsItself", kwargs)));
    for (int i = 0; i < 4; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
    ASSERT_EQ(steps->finished.size(), 2u);
    EXPECT_EQ(steps->final_obs.row(0).field<float>(0)[0], 5);
    EXPECT_EQ(manager->ready_obs().obs.row(0).field<float>(0)[0], 0);
    EXPECT_EQ(steps->finished[0].info.size(), 1u) << "is_success, of final_info";
  }
}

TEST(SimulatorsTest, TheMaskOfAnEnvThatResetsItselfIsThatOfTheNextEpisode) {
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(Simulator("MaskedResetsItself")));
  for (int i = 0; i < 4; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
  const int field = ActionMaskField(manager->env_spec());
  EXPECT_THAT(steps->final_obs.row(0).field<uint8_t>(field), ElementsAre(1, 1));
  EXPECT_THAT(manager->ready_obs().obs.row(0).field<uint8_t>(field), ElementsAre(1, 0));
}

TEST(SimulatorsTest, ThreadsAndProcessesOfAnEnvDoNotKeepItsProcess) {
  DING_ASSERT_OK_AND_ASSIGN(auto manager, Begin(Simulator("Endless")));
  ExpectAnEpisode(manager.get());
}

TEST(SimulatorsTest, ActionsHaveTheTypeOfTheirSpace) {
  for (const char* kwargs : {"", R"({"nested": true})"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(Simulator("Item", kwargs)));
    for (const int64_t action : {0, 1, 2}) {
      EXPECT_THAT(StepReady(manager.get(), {action, action}), IsOk());
    }
  }
}

TEST(SimulatorsTest, AResetWithoutASeedIsRefusedWithTheInterface) {
  const absl::Status status =
      CreateGymnasiumEnvs(TwoPerProcess(), Simulator("OldReset"), 2).status();
  EXPECT_THAT(status, IsInternal("expected reset(self, *, seed=None"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("seed_bits")));
}

TEST(SimulatorsTest, GoalRewardsAreSampledWhereTheyChange) {
  DING_ASSERT_OK_AND_ASSIGN(
      const std::vector<GoalReward> samples,
      SampleGymnasiumGoalRewards(Simulator("Goal", R"({"radius": 0.1})"), nullptr, {}));
  double nearest = 1;
  for (const GoalReward& sample : samples) {
    const double distance = GoalDistance(sample.achieved, sample.desired);
    EXPECT_EQ(sample.reward, distance < 0.1 ? 0 : -1) << distance;
    if (sample.reward == 0) continue;
    nearest = std::min(nearest, distance);
    EXPECT_LE(std::abs(sample.achieved[0]), 1.000001) << "beyond the bounds of goals";
  }
  EXPECT_LT(nearest, 0.1002);
}

TEST(SimulatorsTest, GoalRewardsAreThoseBehindTheWrappers) {
  const EnvConfig around = Around(
      "wrapper { type: 'reward_scale' params { [type.googleapis.com/ding.RewardScaleConfig] { "
      "scale: 5 } } }");
  DING_ASSERT_OK_AND_ASSIGN(
      const std::vector<GoalReward> samples,
      SampleGymnasiumGoalRewards(Simulator("Goal"), WrappersOf(around), around));
  ASSERT_FALSE(samples.empty());
  EXPECT_EQ(samples[0].reward, 0);
  EXPECT_EQ(samples[2].reward, -5);
}

TEST(SimulatorsTest, GoalRewardsThatCannotBeSampledAreSaid) {
  testing::internal::CaptureStderr();
  DING_ASSERT_OK_AND_ASSIGN(
      std::vector<GoalReward> samples,
      SampleGymnasiumGoalRewards(Simulator("Goal", R"({"kind": "raise"})"), nullptr, {}));
  EXPECT_TRUE(samples.empty());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("compute_reward("), HasSubstr("KeyError: 'reward'")));
  DING_ASSERT_OK_AND_ASSIGN(samples, SampleGymnasiumGoalRewards(Simulator("Steps"), nullptr, {}));
  EXPECT_TRUE(samples.empty());
}

TEST(SimulatorsTest, SeedsThatDoNotFitAreRefusedWithTheSetting) {
  GymnasiumConfig config = Simulator("ShortSeeds");
  // At once, and not when an episode has a long seed.
  EXPECT_THAT(CreateGymnasiumEnvs(TwoPerProcess(), config, 2).status(),
              IsInternal("Seed must be between 0 and 2**32 - 1", "set seed_bits: 32"));
  config.set_seed_bits(32);
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(config));
  ExpectAnEpisode(manager.get());
}

TEST(SimulatorsTest, MasksOfAllFormsAreTaken) {
  const struct {
    const char* form;
    std::vector<uint8_t> mask;
  } kCases[] = {
      {"flat", {1, 0, 1, 0}},     {"rows", {1, 0, 1, 0}},           {"lists", {1, 0, 1, 0}},
      {"parts", {1, 0, 1, 0, 0}}, {"bits", {1, 0, 1, 0}},           {"dict", {1, 0, 1, 0, 1, 0, 0}},
      {"tuple", {1, 0, 1, 1, 1}}, {"observed", {1, 0, 1, 0, 1, 0}},
  };
  for (const auto& [form, mask] : kCases) {
    SCOPED_TRACE(form);
    DING_ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<EnvManager> manager,
        Begin(Simulator("Masked", absl::StrCat(R"({"form": ")", form, R"("})"))));
    const int field = ActionMaskField(manager->env_spec());
    ASSERT_GE(field, 0);
    const auto found = manager->ready_obs().obs.row(1).field<uint8_t>(field);
    EXPECT_EQ(std::vector<uint8_t>(found.begin(), found.end()), mask);
  }
}

TEST(SimulatorsTest, AMaskOfAnotherFormIsRefusedWithTheRightForm) {
  const struct {
    const char* form;
    const char* message;
  } kCases[] = {
      {"one per bit", "info['action_mask'] is int8[2], expected bool[4] or bool[2, 2]"},
      {"swapped parts", "expected bool[5] or (bool[2], bool[3])"},
      {"column", "info['action_mask'] is float64[2, 3], expected bool[6] or bool[3, 2]"},
  };
  for (const auto& [form, message] : kCases) {
    EXPECT_THAT(Begin(Simulator("Masked", absl::StrCat(R"({"form": ")", form, R"("})"))),
                IsInternal(message));
  }
}

TEST(SimulatorsTest, ASpaceThatIsNotKnownMayBeLeftOut) {
  EXPECT_THAT(Begin(Simulator("Diary")),
              IsInvalid("the space of 'obs/note' is a Text", "mask_fields { remove: 'obs/note' }"));
  for (const char* fields : {"remove: 'obs/note'", "keep: 'obs/x'"}) {
    const EnvConfig around = Around(absl::StrCat(
        "wrapper { type: 'mask_fields' params { [type.googleapis.com/ding.MaskFieldsConfig] { ",
        fields, " } } }"));
    DING_ASSERT_OK_AND_ASSIGN(const auto manager, Begin(Simulator("Diary"), around));
    EXPECT_EQ(manager->env_spec().observation->DebugString(), "obs/x: float32[1] in [0, 100]");
    ExpectAnEpisode(manager.get());
    // The same for an env alone, whose caller wraps it.
    EXPECT_THAT(CreateGymnasiumEnv(Simulator("Diary"), around), IsOk());
  }
  const EnvConfig other = Around(
      "wrapper { type: 'mask_fields' params { [type.googleapis.com/ding.MaskFieldsConfig] {"
      " remove: 'obs/x' } } }");
  EXPECT_THAT(Begin(Simulator("Diary"), other), IsInvalid("is a Text"));
}

// Games of Python with PettingZoo's parallel interface: their spaces, rewards, masks and ends,
// agents that leave early, exact resume, errors, and the conformance suite.

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
  DING_ASSERT_OK_AND_ASSIGN(const auto game, CreatePettingZooEnv(GameConfig("Knockout")));
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
  DING_ASSERT_OK_AND_ASSIGN(const auto other, CreatePettingZooEnv(GameConfig("Knockout")));
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
  DING_ASSERT_OK_AND_ASSIGN(const auto game, CreatePettingZooEnv(config));
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
              IsInternal("the info of a step has no 'b/step'"));
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
  EXPECT_THAT(failure("text"), IsInternal("is a str (no)", "expected a bool"));
  EXPECT_THAT(failure("no infos"), IsInternal("the info is a NoneType"));
  EXPECT_THAT(failure("pay the dead"), IsInternal("the reward of 'a' is 1, but it has ended in an "
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
