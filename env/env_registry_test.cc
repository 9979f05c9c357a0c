#include "ding_worker/env/env_registry.h"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<std::unique_ptr<EnvManager>> Create(const EnvManagerConfig& config) {
  return create_env_manager(config, {ScriptedEnvFactory(std::make_shared<ScriptedEnvScript>())},
                            Clock::Real());
}

TEST(EnvRegistryTest, EveryRegisteredManagerIsCreated) {
  EXPECT_THAT(EnvManagerRegistry().Names(),
              ElementsAre("async_subprocess", "async_thread", "base", "subprocess"));
  for (const std::string& name : EnvManagerRegistry().Names()) {
    EnvManagerConfig config;
    config.set_type(name);
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> manager, Create(config));
    EXPECT_EQ(manager->env_num(), 1);
    EXPECT_THAT(manager->Launch(), IsOk());
  }
}

TEST(EnvRegistryTest, AnUnknownNameListsTheKnownNames) {
  EnvManagerConfig manager;
  manager.set_type("sub_process");
  EXPECT_THAT(Create(manager), IsNotFound("'sub_process'", "base"));
  EnvConfig env;
  env.set_type("Pong-v0");
  EXPECT_THAT(create_env(env), IsNotFound("'Pong-v0'"));
}

TEST(EnvRegistryTest, AnEnvOfAnotherProgramIsNamedWithIt) {
  EnvConfig env;
  env.set_type("LunarLander-v3");
  EXPECT_THAT(create_env(env),
              IsError(absl::StatusCode::kNotFound, "//worker:serial_physics, which tools/train"));
}

// An env whose observation is its number.
class Named : public Env {
 public:
  explicit Named(const EnvConfig& config) : number_(config.use().number()) {
    spec_.name = "named";
    spec_.observation = *MakeSpec({Box("obs", {1}, {0}, {1e6})});
    spec_.action = *MakeSpec({Discrete("action", 2)});
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef& obs) override {
    obs.field<float>(0)[0] = static_cast<float>(number_);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView&, const RowRef& obs, StepResult*) override {
    return Reset({}, obs);
  }

 private:
  const int64_t number_;
  EnvSpec spec_;
};

TEST(EnvRegistryTest, CreateEnvs_Use_ReachesTheFactoryOfEachEnv) {
  const std::string where = absl::StrCat(FreshTestFolder(), "/built");
  ScopedRegistration<EnvCreator> registration(
      &EnvRegistry(), "named",
      [&where](const EnvConfig& config) -> absl::StatusOr<std::unique_ptr<Env>> {
        std::ofstream(where, std::ios::app)
            << config.use().role() << " " << config.use().number() << "\n";
        return std::make_unique<Named>(config);
      });
  EnvConfig env;
  env.set_type("named");
  EnvsUse use;
  use.evaluates = true;
  use.first_number = 8;
  use.probe_number = 20;
  for (const char* type : {"base", "async_thread", "subprocess"}) {
    EnvManagerConfig manager;
    manager.set_type(type);
    manager.set_envs_per_process(manager.type() == "subprocess" ? 2 : 1);
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> envs,
                              create_envs(env, manager, 2, Clock::Real(), use));
    ASSERT_THAT(envs->Launch(), IsOk());
    EXPECT_EQ(envs->ready_obs().obs.row(0).field<float>(0)[0], 8);
    EXPECT_EQ(envs->ready_obs().obs.row(1).field<float>(0)[0], 9);
  }
  use.probes = true;
  EnvManagerConfig base;
  EXPECT_THAT(create_envs(env, base, 1, Clock::Real(), use), IsOk());
  // Only processes need a probe.
  DING_ASSERT_OK_AND_ASSIGN(const std::string built, ReadFile(where));
  EXPECT_EQ(built,
            "evaluator 8\nevaluator 9\nevaluator 8\nevaluator 9\n"
            "probe 20\nevaluator 8\nevaluator 9\nprobe 20\n");
}

TEST(EnvRegistryTest, ATypeIsRequired) {
  EXPECT_THAT(create_env(EnvConfig()), IsInvalid("type is missing"));
}

// Shows twice the action, in a box of 1.
class LeavesItsBox : public Env {
 public:
  explicit LeavesItsBox(EnvSpec spec) : spec_(std::move(spec)) {}
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef& obs) override {
    obs.field<float>(0)[0] = 0;
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult*) override {
    obs.field<float>(0)[0] = 2 * static_cast<float>(action.scalar<int64_t>(0));
    return absl::OkStatus();
  }

 private:
  const EnvSpec spec_;
};

DING_REGISTER(
    EnvRegistry(), "leaves_its_box",
    [](const EnvConfig&) -> absl::StatusOr<std::unique_ptr<Env>> {
      EnvSpec spec;
      spec.name = "leaves_its_box";
      DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {1}, {-1}, {1})}));
      DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
      return std::make_unique<LeavesItsBox>(std::move(spec));
    },
    "for the test");

TEST(EnvRegistryTest, OutOfBounds_OfAnEnvInCpp_IsCheckedIfSet) {
  const auto last_of = [](std::optional<EnvConfig::OutOfBounds> mode) -> absl::StatusOr<float> {
    EnvConfig config;
    config.set_type("leaves_its_box");
    if (mode.has_value()) config.set_out_of_bounds(*mode);
    EnvManagerConfig manager_config;
    manager_config.set_max_retry(3);
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<EnvManager> manager,
                          create_envs(config, manager_config, 1, Clock::Real()));
    DING_RETURN_IF_ERROR(manager->Launch());
    int64_t action = 1;
    std::byte* const column = reinterpret_cast<std::byte*>(&action);
    DING_RETURN_IF_ERROR(
        manager->Step({0}, ColumnsView(manager->env_spec().action.get(), &column, 0, 1)).status());
    return manager->ready_obs().obs.column<float>(0)[0];
  };
  EXPECT_EQ(last_of(std::nullopt).value(), 2);
  EXPECT_EQ(last_of(EnvConfig::WARN).value(), 2);
  EXPECT_EQ(last_of(EnvConfig::CLIP).value(), 1);
  EXPECT_THAT(last_of(EnvConfig::ERROR),
              IsInternal("step 1 of its episode failed (attempts: 1)",
                         "'obs', element 0, is 2, expected a value in [-1, 1]"));
}

TEST(EnvRegistryTest, BaseManagerRefusesTimeouts) {
  EnvManagerConfig config;
  config.set_step_timeout(2.5);
  config.set_reset_timeout(3);
  EXPECT_THAT(Create(config),
              IsInvalid("step_timeout is 2.5, expected 0", "reset_timeout is 3", "sub-processes"));
}

TEST(EnvRegistryTest, RefusesKeysOfOtherTypes) {
  EnvManagerConfig config;
  config.set_num_threads(2);
  config.set_memory_limit_mb(100);
  const auto refused = [&](absl::string_view type) {
    config.set_type(std::string(type));
    return std::string(Create(config).status().message());
  };
  EXPECT_THAT(refused("base"), AllOf(HasSubstr("num_threads is set, but type 'base'"),
                                     HasSubstr("memory_limit_mb is set")));
  EXPECT_THAT(refused("async_thread"),
              AllOf(Not(HasSubstr("num_threads is set")), HasSubstr("memory_limit_mb is set"),
                    HasSubstr("it has wait_num, num_threads")));
  EXPECT_THAT(refused("subprocess"),
              AllOf(HasSubstr("num_threads is set"), Not(HasSubstr("memory_limit_mb is set"))));
  config.clear_num_threads();
  config.set_wait_num(1);
  EXPECT_THAT(refused("subprocess"), HasSubstr("wait_num is set"));
  EXPECT_EQ(refused("async_subprocess"), "");
  config.set_wait_num(2);
  EXPECT_THAT(refused("async_subprocess"), HasSubstr("wait_num is 2, expected 0 (all) to 1"));
}

TEST(EnvRegistryTest, AcceptsKeysOfOtherTypesWithTheirDefaults) {
  EnvManagerConfig config;
  config.set_num_threads(config.num_threads());
  config.set_envs_per_process(config.envs_per_process());
  config.set_memory_limit_mb(config.memory_limit_mb());
  config.set_connect_timeout(config.connect_timeout());
  EXPECT_THAT(Create(config), IsOk());
}

TEST(EnvRegistryTest, ThreadManagerRefusesTimeouts) {
  EnvManagerConfig config;
  config.set_type("async_thread");
  config.set_step_timeout(2.5);
  EXPECT_THAT(Create(config), IsInvalid("step_timeout is 2.5, expected 0", "async_thread"));
}

TEST(EnvRegistryTest, FieldsOutOfTheirRangesAreListed) {
  EnvManagerConfig config;
  config.set_envs_per_process(-1);
  config.set_connect_timeout(0);
  config.set_step_timeout(-1);
  config.set_retry_waiting_time(std::numeric_limits<double>::infinity());
  config.set_episode_num(-1);
  config.set_max_retry(0);
  config.set_max_abnormal_steps(-3);
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "env manager: episode_num is -1, expected at least 0; max_retry is 0, "
                       "expected at least 1; step_timeout is -1, expected at least 0; "
                       "retry_waiting_time is inf, expected finite and at least 0; "
                       "max_abnormal_steps is -3, expected at least 0; envs_per_process is -1, "
                       "expected at least 0; connect_timeout is 0, expected above 0"));
}

TEST(EnvRegistryTest, OurManagersTakeNoParams) {
  for (const std::string& name : EnvManagerRegistry().Names()) {
    EnvManagerConfig config;
    config.set_type(name);
    config.mutable_params()->PackFrom(ding_user::WordParams());
    EXPECT_THAT(Create(config), IsInvalid("params hold a ding_user.WordParams, but type '" + name +
                                          "' takes none"));
  }
}

TEST(EnvRegistryTest, AManagerOfAUserReadsItsParams) {
  std::string word;
  const EnvManagerCreator create =
      [&word](const EnvManagerConfig& config, std::vector<EnvFactory>,
              const Clock*) -> absl::StatusOr<std::unique_ptr<EnvManager>> {
    ding_user::WordParams params;
    DING_RETURN_IF_ERROR(ReadParams(config, &params));
    word = params.word();
    return absl::AbortedError("the params were read");
  };
  ScopedRegistration<EnvManagerCreator> registration(&EnvManagerRegistry(), "mine", create);
  EnvManagerConfig config;
  config.set_type("mine");
  ding_user::WordParams params;
  params.set_word("hello");
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(Create(config), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(word, "hello");
  config.mutable_params()->PackFrom(ding_user::ChoiceConfig());
  EXPECT_THAT(Create(config), IsInvalid("expected a ding_user.WordParams for type 'mine'"));
}

// Counts the envs built for a reset of two attempts, the first of which fails.
int EnvsBuilt(EnvManagerConfig::RetryType retry_type) {
  const auto script = std::make_shared<ScriptedEnvScript>();
  script->on_reset[1] = EnvFault::kError;
  EnvManagerConfig config;
  config.set_max_retry(2);
  config.set_retry_type(retry_type);
  config.set_retry_waiting_time(0);
  const auto manager = create_env_manager(config, {ScriptedEnvFactory(script)}, Clock::Real());
  EXPECT_THAT(manager, IsOk());
  EXPECT_THAT((*manager)->Launch(), IsOk());
  return script->log.built;
}

TEST(EnvRegistryTest, BaseManagerReadsTheRetryType) {
  EXPECT_EQ(EnvsBuilt(EnvManagerConfig::RESET), 1);
  EXPECT_EQ(EnvsBuilt(EnvManagerConfig::RENEW), 2);
}

}  // namespace
}  // namespace ding
