// Python envs through the manager and alone: all spaces, masks, seeds, statistics, pictures, saved
// states, and a CartPole in Python that gives the same bits as the one in C++.
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/env/gymnasium/testing_envs.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "ding_worker/env/wrapped_env.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kCartPole[] = "cartpole:CartPole";

std::unique_ptr<EnvManager> Make(const GymnasiumConfig& config, int env_num,
                                 SubprocessEnvManagerOptions options = TwoPerProcess()) {
  absl::StatusOr<std::unique_ptr<EnvManager>> manager =
      CreateGymnasiumEnvs(options, config, env_num);
  EXPECT_THAT(manager, IsOk());
  return manager.ok() ? *std::move(manager) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(
    Python, EnvConformance,
    testing::Values(
        EnvConformanceCase{"CartPole", [] { return CreateGymnasiumEnv(TestEnvConfig(kCartPole)); }},
        EnvConformanceCase{
            "AllSpaces", [] { return CreateGymnasiumEnv(TestEnvConfig("sample_envs:AllSpaces")); }},
        EnvConformanceCase{"Robot",
                           [] { return CreateGymnasiumEnv(TestEnvConfig("sample_envs:Robot")); }},
        EnvConformanceCase{"Masked",
                           [] { return CreateGymnasiumEnv(TestEnvConfig("sample_envs:Masked")); }}),
    EnvConformanceName);

TEST(GymnasiumEnvsTest, Actions_AtTheBoundsOfTheSpec_AreInsideOfTheSpaceInItsDtype) {
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig("sample_envs:Narrow"), 2);
  ASSERT_THAT(manager->Launch(), IsOk());
  const FieldSpec& action = manager->env_spec().action->field(0);
  for (const std::vector<double>& bound : {action.low, action.high}) {
    // What a policy makes of the bounds; both envs act alike.
    std::vector<float> values(bound.begin(), bound.end());
    values.insert(values.end(), bound.begin(), bound.end());
    std::byte* const column = reinterpret_cast<std::byte*>(values.data());
    EXPECT_THAT(manager->Step({0, 1}, ColumnsView(manager->env_spec().action.get(), &column, 0, 2)),
                IsOk());
  }
}

// What a manager returned in one step.
std::string Bytes(const Timesteps& steps, const ReadyObs& ready) {
  std::string bytes;
  const auto add = [&bytes](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
  };
  add(steps.reward.data(), steps.reward.size() * sizeof(float));
  add(steps.terminated.data(), steps.terminated.size());
  add(steps.truncated.data(), steps.truncated.size());
  for (const ColumnsView& view : {steps.final_obs, ready.obs}) {
    add(view.raw_column(0), static_cast<size_t>(view.rows() * view.spec().row_bytes(0)));
  }
  for (const FinishedEpisode& episode : steps.finished) {
    absl::StrAppend(&bytes, " ", episode.episode_return, "/", episode.length);
  }
  return bytes;
}

TEST(GymnasiumEnvsTest, CartPoleGivesTheBitsOfTheOneInCpp) {
  const std::unique_ptr<EnvManager> python =
      Make(TestEnvConfig(kCartPole, R"({"max_steps": 60})"), 4);
  const std::unique_ptr<EnvManager> native = *BaseEnvManager::Create(
      {}, std::vector<EnvFactory>(4, [] { return CreateCartPole("CartPole-v1", 60); }));
  for (EnvManager* const manager : {python.get(), native.get()}) {
    ASSERT_THAT(manager->Seed(17, /*dynamic=*/true), IsOk());
    ASSERT_THAT(manager->Launch(), IsOk());
  }
  Rng rng(3, "test/actions");
  int64_t finished = 0;
  for (int i = 0; i < 1500; ++i) {
    std::vector<int64_t> actions(4);
    // Mostly towards the side to which the pole falls, so that some episodes reach the time limit.
    const ReadyObs ready = native->ready_obs();
    for (size_t k = 0; k < 4; ++k) {
      const absl::Span<const float> row = ready.obs.row(static_cast<int64_t>(k)).field<float>(0);
      actions[k] = rng.Uniform() < 0.1 ? static_cast<int64_t>(rng.UniformInt(2))
                                       : (row[2] + row[3] > 0 ? 1 : 0);
    }
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const a, StepReady(python.get(), actions));
    const std::string found = Bytes(*a, python->ready_obs());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const b, StepReady(native.get(), actions));
    finished += static_cast<int64_t>(b->finished.size());
    ASSERT_EQ(found, Bytes(*b, native->ready_obs())) << "step " << i;
  }
  EXPECT_GT(finished, 50);
}

TEST(GymnasiumEnvsTest, EverySpaceBecomesAField) {
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig("sample_envs:AllSpaces"), 2);
  EXPECT_EQ(manager->env_spec().observation->DebugString(),
            "obs/wide: float32[2, 3] in [-100, 100]\n"
            "obs/image: uint8[2, 2, 1]\n"
            "obs/small: int32[2] in [-5, 5]\n"
            "obs/level: int64[] in 0..4\n"
            "obs/pair: int64[2] in 0..9 0..3\n"
            "obs/bits: bool[3]\n"
            "obs/nested/0: float32[] in [-1, 1]\n"
            "obs/nested/1/long: int64[1] in [0, 1.09951e+12]");
  EXPECT_EQ(manager->env_spec().action->DebugString(),
            "action: int64[5] in 0..2 0..1 0..3 0..1 0..1");
}

TEST(GymnasiumEnvsTest, ValuesArriveAtBothSides) {
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig("sample_envs:AllSpaces"), 1);
  ASSERT_THAT(manager->Seed(7, /*dynamic=*/false), IsOk());
  ASSERT_THAT(manager->Launch(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps,
                            StepReady(manager.get(), {2, 1, 3, 0, 1}));
  EXPECT_THAT(steps->reward, ElementsAre(1));
  const RowView row = manager->ready_obs().obs.row(0);
  EXPECT_EQ(row.field<float>(0)[5], 7.5);  // the seed of the episode
  EXPECT_THAT(row.field<uint8_t>(1)[0], 201);
  EXPECT_THAT(row.field<int32_t>(2), ElementsAre(-1, 1));
  EXPECT_EQ(row.scalar<int64_t>(3), 1);                   // category 3 of those from 2 on
  EXPECT_THAT(row.field<int64_t>(4), ElementsAre(3, 3));  // the first action starts at 1
  EXPECT_THAT(row.field<uint8_t>(5), ElementsAre(0, 1, 1));
  EXPECT_EQ(row.scalar<float>(6), 0.25);
  EXPECT_EQ(row.scalar<int64_t>(7), int64_t{1} << 39);
}

TEST(GymnasiumEnvsTest, TheLastInfoHasTheStatisticsOfTheEpisode) {
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig("sample_envs:AllSpaces"), 1);
  ASSERT_THAT(manager->Launch(), IsOk());
  ASSERT_THAT(manager->Reset({EnvReset{0, NamedValues{{"steps", 3}}}}), IsOk());
  ASSERT_THAT(StepReady(manager.get(), {0, 0, 0, 0, 0}).status(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps,
                            StepReady(manager.get(), {0, 0, 0, 0, 0}));
  ASSERT_EQ(steps->finished.size(), 1);
  EXPECT_EQ(steps->truncated[0], 1);
  EXPECT_EQ(steps->finished[0].episode_return, 7);
  EXPECT_EQ(steps->finished[0].length, 2);
  EXPECT_EQ(steps->finished[0].info.GetOr("is_success", 0), 1);
  EXPECT_EQ(steps->finished[0].info.size(), 2u);
}

TEST(GymnasiumEnvsTest, StatisticsOfAnyNameAndValueArrive) {
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig("sample_envs:Statistics"), 1);
  ASSERT_THAT(manager->Launch(), IsOk());
  absl::StatusOr<const Timesteps*> steps = StepReady(manager.get(), {0});
  for (int i = 1; i < 10; ++i) steps = StepReady(manager.get(), {0});
  ASSERT_THAT(steps, IsOk());
  ASSERT_EQ((*steps)->finished.size(), 1);
  EXPECT_EQ((*steps)->finished[0].episode_return, 10);
  const NamedValues& info = (*steps)->finished[0].info;
  EXPECT_EQ(info.Get("reward"), -12345);
  EXPECT_EQ(info.Get("length"), 7);
  EXPECT_EQ(info.Get("\xE5\xA5\x96\xE5\x8A\xB1"), 1);
  EXPECT_EQ(info.Get("odd\\ud800"), 2);
  EXPECT_TRUE(std::isnan(info.GetOr("nan", 0)));
  EXPECT_EQ(info.Get("huge"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(info.Get("is_success"), 1);
  EXPECT_EQ(info.size(), 10u) << "a time is not a number";
}

// By its info_space, and by the config.
TEST(GymnasiumEnvsTest, DeclaredInfosAreColumns) {
  GymnasiumConfig config = TestEnvConfig("sample_envs:Telling");
  config.add_info("speed: float32");
  config.add_info("goal: int32[2, 2]");
  const std::unique_ptr<EnvManager> manager = Make(config, 3);
  ASSERT_NE(manager, nullptr);
  ASSERT_NE(manager->env_spec().info, nullptr);
  EXPECT_EQ(manager->env_spec().info->DebugString(),
            "info/step: int64[]\ninfo/arm/angles: float64[2]\ninfo/bits: bool[3]\n"
            "info/speed: float32[]\ninfo/goal: int32[2, 2]");
  ASSERT_THAT(manager->Launch(), IsOk());
  for (int64_t i = 0; i < 12; ++i) {
    const int64_t t = i % 4 + 1;
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get(), {0, 1, 0}));
    for (int64_t env = 0; env < 3; ++env) {
      const RowView info = steps->info.row(env);
      EXPECT_EQ(info.scalar<int64_t>(0), t);
      EXPECT_THAT(info.field<double>(1), ElementsAre(t, -0.5));
      EXPECT_THAT(info.field<uint8_t>(2), ElementsAre(1, 0, env == 1 ? 1 : 0));
      EXPECT_EQ(info.scalar<float>(3), 0.25f * static_cast<float>(t));
      EXPECT_THAT(info.field<int32_t>(4), ElementsAre(t, 2, 3, 4));
    }
    ASSERT_EQ(steps->finished.size(), t == 4 ? 3u : 0u);
    if (t == 4) {
      EXPECT_EQ(steps->finished[0].info.Get("speed"), 1);
    }
  }
}

TEST(GymnasiumEnvsTest, AnEnvAloneHasItsDeclaredInfos) {
  DING_ASSERT_OK_AND_ASSIGN(
      const auto manager,
      BaseEnvManager::Create({}, std::vector<EnvFactory>(2, [] {
                               return CreateGymnasiumEnv(TestEnvConfig("sample_envs:Telling"));
                             })));
  ASSERT_THAT(manager->Launch(), IsOk());
  for (int64_t i = 0; i < 5; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get(), {0, 1}));
    EXPECT_THAT(steps->info.column<int64_t>(0), ElementsAre(i % 4 + 1, i % 4 + 1));
  }
}

TEST(GymnasiumEnvsTest, InfosThatChangeAreRefusedWithNameFoundAndExpected) {
  const auto error_of = [](const std::string& kwargs) {
    const std::unique_ptr<EnvManager> manager =
        Make(TestEnvConfig("sample_envs:Telling", kwargs), 1);
    EXPECT_THAT(manager->Launch(), IsOk());
    absl::StatusOr<const Timesteps*> steps = StepReady(manager.get());
    for (int i = 0; i < 3 && steps.ok(); ++i) steps = StepReady(manager.get());
    return steps.status();
  };
  EXPECT_THAT(error_of(R"({"wrong": "step"})"),
              IsInternal("the info of a step has no 'step': found ['arm', 'bits', 'goal', "
                         "'note', 'speed'], expected info/step: int64[], as declared"));
  EXPECT_THAT(error_of(R"({"wrong": "bits", "value": [1, 0]})"),
              IsInternal("info['bits'] is a list ([1, 0]), expected "
                         "info/bits: bool[3], as declared"));
  EXPECT_THAT(error_of(R"({"wrong": "step", "value": 0.5})"),
              IsInternal("info['step'] is a float (0.5), expected info/step: int64[]"));
}

TEST(GymnasiumEnvsTest, WronglyDeclaredInfosAreRefused) {
  const auto error_of = [](const std::string& info) {
    GymnasiumConfig config = TestEnvConfig("sample_envs:Telling");
    config.add_info(info);
    return CreateGymnasiumEnvs(TwoPerProcess(), config, 1).status();
  };
  EXPECT_THAT(error_of("speed"), IsInvalid("info is 'speed', expected 'NAME: TYPE'"));
  EXPECT_THAT(error_of("step: int32"), IsInvalid("step is declared before"));
}

TEST(GymnasiumEnvsTest, MasksForbidActions) {
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig("sample_envs:Masked"), 2);
  EXPECT_EQ(manager->env_spec().observation->DebugString(),
            "obs/observation: float32[1] in [0, 10]\nobs/action_mask: bool[3]");
  ASSERT_THAT(manager->Launch(), IsOk());
  EXPECT_THAT(StepReady(manager.get(), {0, 1}), IsInvalid("env 1"));
  for (const int64_t action : {0, 1, 2, 0}) {
    ASSERT_THAT(StepReady(manager.get(), {action, action}).status(), IsOk());
  }
  EXPECT_EQ(manager->ready_obs().obs.row(0).field<uint8_t>(1)[0], 1);  // of the next episode
}

TEST(GymnasiumEnvsTest, IdsAreMadeByGymnasium) {
  GymnasiumConfig config = TestEnvConfig("");
  config.set_id("CartPole-v1");
  config.add_python_path("env/gymnasium/testdata/stub");
  config.set_kwargs(R"({"max_episode_steps": 9})");
  const std::unique_ptr<EnvManager> manager = Make(config, 2);
  EXPECT_EQ(manager->env_spec().name, "CartPole-v1");
  EXPECT_EQ(manager->env_spec().max_episode_steps, 9);
  ASSERT_THAT(manager->Launch(), IsOk());
  // Left and right in turns, so that the pole stays up.
  for (int i = 0; i < 8; ++i)
    ASSERT_THAT(StepReady(manager.get(), {i % 2, i % 2}).status(), IsOk());
  // The counter of the wrapper is part of the state.
  StateDict state;
  ASSERT_THAT(manager->SaveState(&state), IsOk());
  std::vector<int> restarted;
  ASSERT_THAT(manager->LoadState(&state, &restarted), IsOk());
  EXPECT_THAT(restarted, testing::IsEmpty());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
  EXPECT_THAT(steps->truncated, ElementsAre(1, 1));
}

TEST(GymnasiumEnvsTest, PicturesAreRendered) {
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig(kCartPole), 2);
  ASSERT_THAT(manager->Launch(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Image image, manager->Render(1));
  EXPECT_EQ(image.width, 6);
  EXPECT_EQ(image.height, 4);
  EXPECT_EQ(image.rgb.size(), 72u);
}

TEST(GymnasiumEnvsTest, SavedStateContinuesExactly) {
  const auto play = [](EnvManager* manager, int steps) {
    std::string bytes;
    for (int i = 0; i < steps; ++i) {
      const absl::StatusOr<const Timesteps*> stepped =
          StepReady(manager, {i % 2, i % 3 == 0, (i / 2) % 2});
      EXPECT_THAT(stepped, IsOk());
      bytes += Bytes(**stepped, manager->ready_obs());
    }
    return bytes;
  };
  const std::unique_ptr<EnvManager> first = Make(TestEnvConfig(kCartPole), 3);
  ASSERT_THAT(first->Launch(), IsOk());
  play(first.get(), 25);
  StateDict state;
  ASSERT_THAT(first->SaveState(&state), IsOk());
  const std::string expected = play(first.get(), 60);

  const std::unique_ptr<EnvManager> second = Make(TestEnvConfig(kCartPole), 3);
  std::vector<int> restarted;
  ASSERT_THAT(second->LoadState(&state, &restarted), IsOk());
  EXPECT_THAT(restarted, testing::IsEmpty());
  EXPECT_EQ(play(second.get(), 60), expected);
}

TEST(GymnasiumEnvsTest, AnEnvWithoutStateBeginsAnEpisodeOnLoad) {
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig("cartpole:ForgetfulCartPole"), 2);
  ASSERT_THAT(manager->Launch(), IsOk());
  ASSERT_THAT(StepReady(manager.get()).status(), IsOk());
  StateDict state;
  ASSERT_THAT(manager->SaveState(&state), IsOk());
  std::vector<int> restarted;
  ASSERT_THAT(manager->LoadState(&state, &restarted), IsOk());
  EXPECT_THAT(restarted, ElementsAre(0, 1));
}

TEST(GymnasiumEnvsTest, AStepNeedNotWaitForAll) {
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.wait_num = 1;
  const std::unique_ptr<EnvManager> manager = Make(TestEnvConfig(kCartPole), 4, options);
  ASSERT_THAT(manager->Launch(), IsOk());
  int64_t steps = 0;
  while (steps < 200) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const stepped, StepReady(manager.get()));
    steps += static_cast<int64_t>(stepped->env_ids.size());
  }
}

// What a Counted of testdata/sample_envs.py shows of env 0: resets, seed, step.
std::vector<float> Shown(const ColumnsView& obs) {
  const absl::Span<const float> row = obs.row(0).field<float>(0);
  return {row.begin(), row.end()};
}

std::unique_ptr<EnvManager> MakeCounted(absl::string_view kwargs = "") {
  GymnasiumConfig config = TestEnvConfig("sample_envs:Counted", kwargs);
  config.set_seed_bits(8);
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.max_retry = 2;
  return Make(config, 2, options);
}

// The seed of episode `index` that a Counted shows.
float SeedShown(uint64_t seed, uint64_t index) {
  return static_cast<float>(Rng::DeriveSeed(seed, "env/episode", index) & 0xFF);
}

// An env begins the next episode with the last step of this one. Nobody sees that but the env.
TEST(GymnasiumEnvsTest, EachEpisodeIsOneReset) {
  const std::unique_ptr<EnvManager> manager = MakeCounted();
  ASSERT_THAT(manager->Seed(5, /*dynamic=*/true), IsOk());
  ASSERT_THAT(manager->Launch(), IsOk());
  for (uint64_t episode = 0; episode < 3; ++episode) {
    const auto resets = static_cast<float>(episode + 1);
    EXPECT_THAT(Shown(manager->ready_obs().obs), ElementsAre(resets, SeedShown(5, episode), 0));
    ASSERT_THAT(StepReady(manager.get()), IsOk());
    ASSERT_THAT(StepReady(manager.get()), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
    EXPECT_THAT(Shown(steps->final_obs), ElementsAre(resets, SeedShown(5, episode), 3));
  }
}

TEST(GymnasiumEnvsTest, AnotherSeedThanForeseenIsUsed) {
  const std::unique_ptr<EnvManager> manager = MakeCounted();
  ASSERT_THAT(manager->Launch(), IsOk());
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  ASSERT_THAT(manager->Seed(9, /*dynamic=*/true), IsOk());
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
  EXPECT_THAT(Shown(steps->final_obs), ElementsAre(1, SeedShown(0, 0), 3));
  // The env has reset once in vain.
  EXPECT_THAT(Shown(manager->ready_obs().obs), ElementsAre(3, SeedShown(9, 0), 0));
}

TEST(GymnasiumEnvsTest, AStepIsCompleteIfTheProcessEndsInTheNextReset) {
  const std::string where = testing::TempDir() + "/ends_in_reset";
  unlink(where.c_str());
  const std::unique_ptr<EnvManager> manager =
      MakeCounted(absl::StrCat(R"({"exits": 2, "where": ")", where, R"("})"));
  ASSERT_THAT(manager->Launch(), IsOk());
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
  EXPECT_THAT(steps->terminated, ElementsAre(1, 1));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 0));
  EXPECT_THAT(Shown(steps->final_obs), ElementsAre(1, SeedShown(0, 0), 3));
  // The env of a new process.
  EXPECT_THAT(Shown(manager->ready_obs().obs), ElementsAre(1, SeedShown(0, 1), 0));
}

TEST(GymnasiumEnvsTest, SeedsCanBeNarrow) {
  GymnasiumConfig config = TestEnvConfig("sample_envs:AllSpaces");
  config.set_seed_bits(4);
  const std::unique_ptr<EnvManager> manager = Make(config, 1);
  ASSERT_THAT(manager->Seed(0x35, /*dynamic=*/false), IsOk());
  ASSERT_THAT(manager->Launch(), IsOk());
  EXPECT_EQ(manager->ready_obs().obs.row(0).field<float>(0)[0], 5.5);
}

// Wrapped envs of Python processes give the same bits as the same env of C++ with the same
// wrappers, and go on exactly after a load.

constexpr int kEnvs = 4;

DING_REGISTER(
    EnvRegistry(), "CartPole", [](const EnvConfig&) { return CreateCartPole("CartPole", 60); },
    "a short CartPole");

EnvConfig Config(const std::string& wrappers) {
  EnvConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: 'CartPole' ", wrappers), &config));
  return config;
}

std::unique_ptr<EnvManager> Python(const EnvConfig& config) {
  return CreateGymnasiumEnvs(TwoPerProcess(),
                             TestEnvConfig("cartpole:CartPole", R"({"max_steps": 60})"), kEnvs,
                             WrappersOf(config))
      .value();
}

// Plays `steps` steps with the same actions each time; returns all that the manager returned.
std::string Play(EnvManager* manager, int steps) {
  std::string bytes;
  for (int i = 0; i < steps; ++i) {
    std::vector<int64_t> actions;
    for (int k = 0; k < kEnvs; ++k) actions.push_back((i / (k + 1)) % 2);
    const absl::StatusOr<const Timesteps*> stepped = StepReady(manager, actions);
    EXPECT_THAT(stepped, IsOk());
    if (!stepped.ok()) return bytes;
    for (const float reward : (*stepped)->reward) absl::StrAppend(&bytes, reward, " ");
    for (const ColumnsView& view : {(*stepped)->final_obs, manager->ready_obs().obs}) {
      bytes.append(reinterpret_cast<const char*>(view.raw_column(0)),
                   static_cast<size_t>(view.rows() * view.spec().row_bytes(0)));
    }
    for (const FinishedEpisode& episode : (*stepped)->finished) {
      absl::StrAppend(&bytes, episode.episode_return, "/", episode.length, " ");
    }
  }
  return bytes;
}

class GymnasiumWrappersTest : public testing::TestWithParam<std::string> {};

TEST_P(GymnasiumWrappersTest, AreThoseOfCppEnvs) {
  const EnvConfig config = Config(GetParam());
  const std::unique_ptr<EnvManager> python = Python(config);
  const std::unique_ptr<EnvManager> native = *BaseEnvManager::Create(
      {}, std::vector<EnvFactory>(kEnvs, [config] { return create_env(config); }));
  ASSERT_THAT(CheckSameLayout(*native->env_spec().observation, *python->env_spec().observation,
                              "the observation of the env of Python"),
              IsOk());
  for (EnvManager* const manager : {python.get(), native.get()}) {
    ASSERT_THAT(manager->Seed(5, /*dynamic=*/true), IsOk());
    ASSERT_THAT(manager->Launch(), IsOk());
  }
  EXPECT_EQ(Play(python.get(), 150), Play(native.get(), 150));
}

TEST_P(GymnasiumWrappersTest, GoOnExactly) {
  const EnvConfig config = Config(GetParam());
  const std::unique_ptr<EnvManager> first = Python(config);
  ASSERT_THAT(first->Launch(), IsOk());
  Play(first.get(), 31);
  StateDict state;
  ASSERT_THAT(first->SaveState(&state), IsOk());
  const std::string expected = Play(first.get(), 60);
  const std::unique_ptr<EnvManager> second = Python(config);
  std::vector<int> restarted;
  ASSERT_THAT(second->LoadState(&state, &restarted), IsOk());
  EXPECT_THAT(restarted, testing::IsEmpty());
  EXPECT_EQ(Play(second.get(), 60), expected);
}

// reward_clip would make a bound of infinity. As above, an env of C++ behaves alike.
TEST(GymnasiumWrappersFaultsTest, AWrapper_HidesNothingThatIsNotFinite) {
  const EnvConfig config = Config("wrapper { type: 'reward_clip' }");
  for (const bool drops : {false, true}) {
    SubprocessEnvManagerOptions options = TwoPerProcess();
    options.drop_not_finite = drops;
    options.max_retry = 3;
    const auto scripted = [&config]() -> absl::StatusOr<std::unique_ptr<Env>> {
      const auto script = std::make_shared<ScriptedEnvScript>();
      script->on_step[3] = EnvFault::kInfReward;
      DING_ASSIGN_OR_RETURN(std::unique_ptr<Env> env, ScriptedEnvFactory(script)());
      return MakeWrappedEnv(std::move(env), WrappersOf(config));
    };
    std::vector<std::unique_ptr<EnvManager>> managers;
    managers.push_back(
        CreateGymnasiumEnvs(options, TroubleConfig("inf reward"), 1, WrappersOf(config)).value());
    managers.push_back(BaseEnvManager::Create(options, {scripted}).value());
    for (const std::unique_ptr<EnvManager>& manager : managers) {
      ASSERT_THAT(manager->Launch(), IsOk());
      for (int i = 0; i < 2; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk());
      const absl::StatusOr<const Timesteps*> steps = StepReady(manager.get());
      if (!drops) {
        EXPECT_THAT(steps, IsInternal("step 3 of its episode", "(attempts: 1): the reward is inf"));
        continue;
      }
      ASSERT_THAT(steps, IsOk());
      EXPECT_EQ((*steps)->abnormal[0], 1);
      ASSERT_EQ((*steps)->causes.size(), 1);
      EXPECT_THAT((*steps)->causes[0].cause.message(), HasSubstr("the reward is inf"));
      EXPECT_THAT(StepReady(manager.get()), IsOk());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stacks, GymnasiumWrappersTest,
    testing::Values(
        "wrapper { type: 'sticky_actions' }"
        "wrapper { type: 'time_limit' params { [type.googleapis.com/ding.TimeLimitConfig] {"
        " max_steps: 9 } } }"
        "wrapper { type: 'reward_scale' params { [type.googleapis.com/ding.RewardScaleConfig] {"
        " scale: 3 } } }",
        "wrapper { type: 'no_op_starts' params { [type.googleapis.com/ding.NoOpStartsConfig] {"
        " max_steps: 20 } } }"
        "wrapper { type: 'action_repeat' params { [type.googleapis.com/ding.ActionRepeatConfig] {"
        " count: 3 } } }"
        "wrapper { type: 'frame_stack' }"),
    [](const testing::TestParamInfo<std::string>& info) {
      return absl::StrCat("Stack", info.index);
    });

}  // namespace
}  // namespace ding
