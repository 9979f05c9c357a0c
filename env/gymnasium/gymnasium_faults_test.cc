// What goes wrong in Python envs: their code fails, their process ends, they are not there, or they
// do not keep to their spaces. Each error says what was found, what was expected and what to do.
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/env/gymnasium/testing_envs.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status ErrorOf(const GymnasiumConfig& config) {
  return CreateGymnasiumEnvs(TwoPerProcess(), config, 2).status();
}

class GymnasiumFaultsTest : public testing::Test {
 protected:
  // A file that the first process to fail creates, so that the next one does not.
  std::string Once() { return absl::StrCat(FreshTestFolder(), "/done"); }

  void Launch(const GymnasiumConfig& config,
              const SubprocessEnvManagerOptions& options = TwoPerProcess(),
              const EnvConfig& around = {}) {
    absl::StatusOr<std::unique_ptr<EnvManager>> manager =
        CreateGymnasiumEnvs(options, config, 2, /*wrappers=*/nullptr, around);
    ASSERT_THAT(manager, IsOk());
    manager_ = *std::move(manager);
    ASSERT_THAT(manager_->Launch(), IsOk());
  }
  // Makes the steps of an episode before the one that goes wrong, and that one.
  absl::Status StepIntoTrouble() {
    for (int i = 0; i < 2; ++i) EXPECT_THAT(StepReady(manager_.get()), IsOk());
    return StepReady(manager_.get()).status();
  }
  // Does the same; both envs lose their episodes because of `cause`, and then go on.
  void ExpectVoidStep(const std::string& cause, bool built_anew = true) {
    for (int i = 0; i < 2; ++i) EXPECT_THAT(StepReady(manager_.get()), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager_.get()));
    EXPECT_EQ(steps->abnormal[0], 1);
    ASSERT_FALSE(steps->causes.empty());
    const std::string found = steps->causes[0].cause.ToString();
    EXPECT_THAT(found, HasSubstr(cause));
    const auto loses =
        AllOf(HasSubstr("the level of a curriculum, is lost"), HasSubstr("get_state()"));
    EXPECT_EQ(testing::Value(found, loses), built_anew) << found;
    for (int i = 0; i < 10; ++i) EXPECT_THAT(StepReady(manager_.get()), IsOk());
  }

  std::unique_ptr<EnvManager> manager_;
};

TEST_F(GymnasiumFaultsTest, ATracebackArrivesWhole) {
  Launch(TroubleConfig("raise"));
  const absl::Status status = StepIntoTrouble();
  EXPECT_THAT(status,
              IsInternal("env 0 (sample_envs:Trouble): step 3", "Traceback (most recent call last)",
                         "sample_envs.py\", line ", "in do_raise", "self.fall_off()",
                         "ValueError: fell off the cliff"));
  // Only lines of the user's code.
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("/proc/self/fd")));
}

TEST_F(GymnasiumFaultsTest, AFailedStepIsTriedAgain) {
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.max_retry = 2;
  Launch(TroubleConfig("raise", Once()), options);
  EXPECT_THAT(StepIntoTrouble(), IsOk());
}

TEST_F(GymnasiumFaultsTest, AFailedEnvIsRenewed) {
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.max_retry = 2;
  options.retry_type = EnvRetryType::kRenew;
  Launch(TroubleConfig("raise", Once()), options);
  ExpectVoidStep("fell off the cliff");
}

TEST_F(GymnasiumFaultsTest, AFailedResetIsTriedAgain) {
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.max_retry = 2;
  Launch(TroubleConfig("reset", Once()), options);
  EXPECT_THAT(manager_->Reset(), IsOk());
}

TEST_F(GymnasiumFaultsTest, AResetThatFailsClosesTheManager) {
  Launch(TroubleConfig("reset"));
  EXPECT_THAT(manager_->Reset(), IsInternal("reset failed (seed", "KeyError: 'no level"));
  EXPECT_TRUE(manager_->closed());
}

TEST_F(GymnasiumFaultsTest, AProcessThatExitsIsReplaced) {
  Launch(TroubleConfig("exit", Once()));
  ExpectVoidStep("exited with code 3; its last lines:\nlast words");
}

TEST_F(GymnasiumFaultsTest, AProcessThatIsKilledIsReplaced) {
  Launch(TroubleConfig("kill", Once()));
  ExpectVoidStep("was killed by signal 9");
}

TEST_F(GymnasiumFaultsTest, AProcessThatEndsItselfIsReplaced) {
  Launch(TroubleConfig("system exit", Once()));
  ExpectVoidStep("exited with code 5");
}

TEST_F(GymnasiumFaultsTest, AProcessThatHangsIsReplaced) {
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.step_timeout = absl::Seconds(1);
  Launch(TroubleConfig("hang", Once()), options);
  ExpectVoidStep("step_timeout");
}

TEST_F(GymnasiumFaultsTest, AProcessThatLeaksIsReplaced) {
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.memory_limit_mb = 200;
  Launch(TroubleConfig("leak", Once()), options);
  ExpectVoidStep("passed memory_limit_mb (200)");
}

TEST_F(GymnasiumFaultsTest, OutputOfPythonGoesToTheLog) {
  testing::internal::CaptureStderr();
  Launch(TroubleConfig("print"));
  EXPECT_THAT(StepIntoTrouble(), IsOk());
  manager_.reset();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("step 3 of the env\n"));
}

TEST_F(GymnasiumFaultsTest, ObservationsMustKeepToTheirSpace) {
  const struct {
    std::string deed, message;
  } kCases[] = {
      {"wrong dtype", "the observation 'obs' is float64[2], expected float32[2] as its space says"},
      {"wrong shape", "the observation 'obs' is float32[3], expected float32[2] as its space says"},
      {"list", "the observation 'obs' is a list ([0.0, 0.0]), expected float32[2]"},
      {"outside", "observation 'obs', element 1, is 1.5, expected a value in [-1, 1]"},
      {"nan", "observation field 'obs', element 1, is nan"},
      {"reward", "the reward is a str (one), expected a number"},
      {"old step", "step() returned a tuple"},
      {"text end", "the end of an episode, terminated or truncated, is a str (False)"},
      {"huge reward", "the reward is a int (1000"},
      {"no info", "the info is a NoneType (None), expected a dict"},
      {"list info", "the info is a list ([1]), expected a dict"},
      {"endless info", "the info is nested too deeply: it has self/self/"},
      {"nan return", "its own return of the episode (eval_episode_return"},
      {"long error", "xxxthe end"},
  };
  for (const auto& [deed, message] : kCases) {
    SCOPED_TRACE(deed);
    Launch(TroubleConfig(deed));
    EXPECT_THAT(StepIntoTrouble(), IsInternal("env 0 (sample_envs:Trouble)", message));
  }
}

TEST_F(GymnasiumFaultsTest, AnObservationOfAnotherByteOrder_IsConverted) {
  Launch(TroubleConfig("big endian"));
  EXPECT_THAT(StepIntoTrouble(), IsOk());
  EXPECT_EQ(manager_->ready_obs().obs.column<float>(0)[0], 0.3f);
}

TEST_F(GymnasiumFaultsTest, Step_OutsideOfItsSpace_IsNotRetried) {
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.max_retry = 3;
  Launch(TroubleConfig("outside"), options);
  EXPECT_THAT(StepIntoTrouble(),
              IsInternal("step 3 of its episode failed (attempts: 1)", "env.out_of_bounds: CLIP"));
  // Also where the manager runs the env as one of C++, and could step it once more.
  BaseEnvManager::Options local;
  local.max_retry = 3;
  manager_ =
      *BaseEnvManager::Create(local, {[] { return CreateGymnasiumEnv(TroubleConfig("outside")); }});
  ASSERT_THAT(manager_->Launch(), IsOk());
  EXPECT_THAT(StepIntoTrouble(), IsInternal("(attempts: 1)"));
}

TEST_F(GymnasiumFaultsTest, ValuesOutsideOfTheSpace_AreClippedOrStayAsConfigured) {
  for (const auto mode : {EnvConfig::CLIP, EnvConfig::WARN}) {
    testing::internal::CaptureStderr();
    EnvConfig around;
    around.set_out_of_bounds(mode);
    Launch(TroubleConfig("outside"), TwoPerProcess(), around);
    EXPECT_THAT(StepIntoTrouble(), IsOk());
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("WARNING: env 0 (sample_envs:Trouble): observation 'obs', element 1, is "
                          "1.5, expected a value in [-1, 1]"));
    EXPECT_EQ(manager_->ready_obs().obs.column<float>(0)[1], mode == EnvConfig::CLIP ? 1 : 1.5f);
  }
  // NaN is none of these: no bound is near.
  EnvConfig clips;
  clips.set_out_of_bounds(EnvConfig::CLIP);
  Launch(TroubleConfig("nan"), TwoPerProcess(), clips);
  EXPECT_THAT(StepIntoTrouble(), IsInternal("element 1, is nan"));
}

TEST_F(GymnasiumFaultsTest, StepThatIsNotFinite_IsVoidIfWanted) {
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.drop_not_finite = true;
  for (const auto& [deed, message] :
       {std::pair("nan", "observation field 'obs', element 1, is nan"),
        std::pair("nan return", "its own return of the episode"),
        std::pair("inf reward", "the reward is inf")}) {
    Launch(TroubleConfig(deed), options);
    ExpectVoidStep(absl::StrCat("env 0 (sample_envs:Trouble): at step 3 of its episode: ", message),
                   /*built_anew=*/false);
  }
}

TEST_F(GymnasiumFaultsTest, ResetThatIsNotFinite_FailsOrBeginsTheNextEpisode) {
  Launch(TroubleConfig("nan reset"));
  EXPECT_THAT(manager_->Reset(), IsInternal("reset failed (seed", "element 1, is nan"));
  SubprocessEnvManagerOptions options = TwoPerProcess();
  options.drop_not_finite = true;
  Launch(TroubleConfig("nan reset", Once()), options);
  EXPECT_THAT(manager_->Reset(), IsOk());
  EXPECT_EQ(manager_->ready_obs().env_ids.size(), 2);
  // But not for ever.
  Launch(TroubleConfig("nan reset"), options);
  EXPECT_THAT(manager_->Reset(), IsInternal("element 1, is nan"));
}

TEST_F(GymnasiumFaultsTest, StepThatTheEnvCallsAbnormal_IsVoid) {
  for (const char* const deed : {"abnormal", "final abnormal"}) {
    Launch(TroubleConfig(deed, Once()));
    for (int i = 0; i < 2; ++i) EXPECT_THAT(StepReady(manager_.get()), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager_.get()));
    EXPECT_THAT(steps->abnormal, ElementsAre(1, 0));
    EXPECT_THAT(steps->terminated, ElementsAre(0, 0));
    EXPECT_THAT(steps->reward, ElementsAre(0, 1));
    EXPECT_TRUE(steps->finished.empty());
    EXPECT_EQ(manager_->ready_obs().obs.column<float>(0)[0], 0) << "a new episode";
    for (int i = 0; i < 10; ++i) EXPECT_THAT(StepReady(manager_.get()), IsOk());
  }
}

TEST_F(GymnasiumFaultsTest, StepThatTheEnvCallsNotAbnormal_IsLikeOthers) {
  Launch(TroubleConfig("normal"));
  for (int i = 0; i < 2; ++i) EXPECT_THAT(StepReady(manager_.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager_.get()));
  ASSERT_EQ(steps->finished.size(), 2);
  EXPECT_EQ(steps->finished[0].info.Get("abnormal"), std::nullopt) << "not a statistic";
}

TEST_F(GymnasiumFaultsTest, SpacesMustNotChange) {
  absl::StatusOr<std::unique_ptr<EnvManager>> manager =
      CreateGymnasiumEnvs(TwoPerProcess(), TroubleConfig("other space"), 2);
  ASSERT_THAT(manager, IsOk());
  ASSERT_THAT((*manager)->Launch(), IsOk());
  EXPECT_THAT((*manager)->Reset(),
              IsInvalid("its spaces changed: found", "obs: float32[3]", "obs: float32[2]"));
}

TEST_F(GymnasiumFaultsTest, MissingModulesClassesAndPackagesAreNamed) {
  EXPECT_THAT(ErrorOf(TestEnvConfig("no_such_module:Env")),
              IsNotFound("entry_point 'no_such_module:Env': No module named "
                         "'no_such_module'; looked in ['env/gymnasium/testdata'"));
  EXPECT_THAT(ErrorOf(TestEnvConfig("sample_envs:NoSuchEnv")),
              IsNotFound("has no 'NoSuchEnv'", "'Pixels'"));
  EXPECT_THAT(ErrorOf(TestEnvConfig("sample_envs")), IsInvalid("expected 'module:Class'"));
  GymnasiumConfig by_id = TestEnvConfig("");
  by_id.set_id("NoSuchEnv-v3");
  EXPECT_THAT(ErrorOf(by_id), IsFailedPrecondition("-m pip install gymnasium"));
  // A gymnasium that lacks a module of its own is there, but broken: the stub without the folder of
  // its CartPole.
  GymnasiumConfig broken = by_id;
  broken.clear_python_path();
  broken.add_python_path("env/gymnasium/testdata/stub");
  EXPECT_THAT(ErrorOf(broken), IsFailedPrecondition("gymnasium cannot be imported by",
                                                    "No module named 'cartpole'"));
  by_id.add_python_path("env/gymnasium/testdata/stub");
  EXPECT_THAT(ErrorOf(by_id), IsInternal("NameNotFound: Environment `NoSuchEnv` doesn't exist."));
}

TEST_F(GymnasiumFaultsTest, TheConfigIsChecked) {
  GymnasiumConfig config = TestEnvConfig("sample_envs:Trouble", "{\"deed\"}");
  EXPECT_THAT(ErrorOf(config), IsInvalid("expected a JSON object"));
  config.set_id("CartPole-v1");
  config.set_seed_bits(65);
  EXPECT_THAT(ErrorOf(config),
              IsInvalid("expected one of both", "seed_bits is 65, expected in [1, 64]"));
  EXPECT_THAT(ErrorOf(TestEnvConfig("sample_envs:Trouble", "{\"colour\": 1}")),
              IsInternal("unexpected keyword argument 'colour'"));
}

TEST_F(GymnasiumFaultsTest, TheInterpreterMustBeThere) {
  GymnasiumConfig config = TroubleConfig("");
  config.set_python("/no/such/python");
  EXPECT_THAT(ErrorOf(config), IsUnavailable("there is no Python interpreter "
                                             "'/no/such/python' (params.python or --python)"));
}

TEST_F(GymnasiumFaultsTest, TheInterpreterMustHaveNumpy) {
  // Without its site the interpreter finds the standard library only.
  const std::string path = absl::StrCat(FreshTestFolder(), "/python");
  OverwriteFile(path, "#!/bin/sh\nexec /usr/bin/python3 -S \"$@\"\n");
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  GymnasiumConfig config = TroubleConfig("");
  config.set_python(path);
  EXPECT_THAT(ErrorOf(config), IsFailedPrecondition("has no numpy", "-m pip install numpy"));
}

TEST_F(GymnasiumFaultsTest, EnvsThatDoNotFitAreRefused) {
  EXPECT_THAT(ErrorOf(TroubleConfig("build")), IsInternal("RuntimeError: no such level"));
  EXPECT_THAT(ErrorOf(TroubleConfig("graph")),
              IsInvalid("the space of 'obs' is a Graph, expected Box"));
  EXPECT_THAT(ErrorOf(TroubleConfig("no actions")),
              IsInvalid("a Discrete of [0] categories, expected at least one"));
  EXPECT_THAT(ErrorOf(TroubleConfig("exit early")), IsInternal("in __init__", "SystemExit: 0"));
  EXPECT_THAT(ErrorOf(TroubleConfig("mixed")), IsInvalid("discrete and continuous parts"));
  EXPECT_THAT(ErrorOf(TroubleConfig("old reset")), IsInternal("expected (observation, info)"));
}

}  // namespace
}  // namespace ding
