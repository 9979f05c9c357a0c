// Wrapped envs of Python processes give the same bits as the same env of C++ with the same
// wrappers, and go on exactly after a load.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/env/gymnasium/testing_envs.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "ding_worker/env/wrapped_env.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
        EXPECT_THAT(steps, StatusIs(absl::StatusCode::kInternal,
                                    AllOf(HasSubstr("step 3 of its episode"),
                                          HasSubstr("(attempts: 1): the reward is inf"))));
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
