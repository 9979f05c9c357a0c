// Envs that do what simulators do (testdata/simulators.py): they have processes of their own, parse
// arguments, need a display, a port, or seeds of 32 bits, reset themselves, are debugged, and say
// in many forms what is legal.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/env/gymnasium/testing_envs.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::StatusCode kInternal = absl::StatusCode::kInternal;

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
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager, Begin(config));
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
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager, Begin(config, pictures));
    DING_ASSERT_OK_AND_ASSIGN(const Image image, manager->Render(1));
    EXPECT_EQ(image.width, 3);
  }
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> plain,
                            Begin(Simulator("Screen", kwargs)));
  EXPECT_THAT(plain->Render(0).status(),
              IsError(absl::StatusCode::kUnimplemented, R"("render_mode": "rgb_array")"));
}

TEST(SimulatorsTest, MetadataMayHaveNoRenderModes) {
  for (const char* use : {"", "use { pictures: true }"}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager,
                              Begin(Simulator("NoModes"), Around(use)));
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
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager, Begin(config, around));
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
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager,
                              Begin(Simulator("ResetsItself", kwargs)));
    for (int i = 0; i < 4; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
    ASSERT_EQ(steps->finished.size(), 2u);
    EXPECT_EQ(steps->final_obs.row(0).field<float>(0)[0], 5);
    EXPECT_EQ(manager->ready_obs().obs.row(0).field<float>(0)[0], 0);
    EXPECT_EQ(steps->finished[0].info.size(), 1u) << "is_success, of final_info";
  }
}

TEST(SimulatorsTest, TheMaskOfAnEnvThatResetsItselfIsThatOfTheNextEpisode) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager,
                            Begin(Simulator("MaskedResetsItself")));
  for (int i = 0; i < 4; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
  const int field = ActionMaskField(manager->env_spec());
  EXPECT_THAT(steps->final_obs.row(0).field<uint8_t>(field), ElementsAre(1, 1));
  EXPECT_THAT(manager->ready_obs().obs.row(0).field<uint8_t>(field), ElementsAre(1, 0));
}

TEST(SimulatorsTest, ThreadsAndProcessesOfAnEnvDoNotKeepItsProcess) {
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<EnvManager> manager, Begin(Simulator("Endless")));
  ExpectAnEpisode(manager.get());
}

TEST(SimulatorsTest, ActionsHaveTheTypeOfTheirSpace) {
  for (const char* kwargs : {"", R"({"nested": true})"}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager,
                              Begin(Simulator("Item", kwargs)));
    for (const int64_t action : {0, 1, 2}) {
      EXPECT_THAT(StepReady(manager.get(), {action, action}), IsOk());
    }
  }
}

TEST(SimulatorsTest, AResetWithoutASeedIsRefusedWithTheInterface) {
  const absl::Status status =
      CreateGymnasiumEnvs(TwoPerProcess(), Simulator("OldReset"), 2).status();
  EXPECT_THAT(status, IsError(kInternal, "expected reset(self, *, seed=None"));
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
              IsError(kInternal, "Seed must be between 0 and 2**32 - 1", "set seed_bits: 32"));
  config.set_seed_bits(32);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager, Begin(config));
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
                IsError(kInternal, message));
  }
}

TEST(SimulatorsTest, ASpaceThatIsNotKnownMayBeLeftOut) {
  EXPECT_THAT(Begin(Simulator("Diary")),
              IsInvalid("the space of 'obs/note' is a Text", "mask_fields { remove: 'obs/note' }"));
  for (const char* fields : {"remove: 'obs/note'", "keep: 'obs/x'"}) {
    const EnvConfig around = Around(absl::StrCat(
        "wrapper { type: 'mask_fields' params { [type.googleapis.com/ding.MaskFieldsConfig] { ",
        fields, " } } }"));
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager,
                              Begin(Simulator("Diary"), around));
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

}  // namespace
}  // namespace ding
