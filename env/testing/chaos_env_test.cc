#include "ding_worker/env/testing/chaos_env.h"

#include <cmath>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/chaos.pb.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

INSTANTIATE_TEST_SUITE_P(Chaos, EnvConformance,
                         testing::Values(EnvConformanceCase{
                             "without_fault", [] { return CreateChaosEnv(ChaosConfig()); }}),
                         EnvConformanceName);

ChaosConfig Config(ChaosConfig::Fault fault, int64_t at_step = 1) {
  ChaosConfig config;
  config.set_fault(fault);
  config.set_at_step(at_step);
  config.set_last_words("the bridge is out");
  return config;
}

class Stage {
 public:
  explicit Stage(const ChaosConfig& config)
      : env_(*CreateChaosEnv(config)),
        row_(*BatchBuilder::Create(env_->spec().observation, 1)),
        action_(*BatchBuilder::Create(env_->spec().action, 1)) {}

  absl::Status Reset(NamedValues params = {}) {
    return env_->Reset({0, std::move(params)}, row_.view().row(0));
  }
  absl::Status Step() {
    result_ = StepResult();
    action_.column<int64_t>(0)[0] = 0;
    return env_->Step(ColumnsView(action_.view()).row(0), row_.view().row(0), &result_);
  }
  float obs(int index) const { return row_.column<float>(0)[static_cast<size_t>(index)]; }
  const StepResult& result() const { return result_; }

 private:
  const std::unique_ptr<Env> env_;
  BatchBuilder row_;
  BatchBuilder action_;
  StepResult result_;
};

// Resets the env and takes `steps` steps.
void Play(const ChaosConfig& config, int steps) {
  Stage stage(config);
  (void)stage.Reset();
  for (int i = 0; i < steps; ++i) (void)stage.Step();
}

TEST(ChaosEnvDeathTest, DiesAsConfiguredAfterItsLastWords) {
  const std::pair<ChaosConfig::Fault, int> signals[] = {{ChaosConfig::SEGFAULT, SIGSEGV},
                                                        {ChaosConfig::ABORT, SIGABRT},
                                                        {ChaosConfig::KILL, SIGKILL}};
  for (const auto& [fault, signal] : signals) {
    EXPECT_EXIT(Play(Config(fault, 3), 3), testing::KilledBySignal(signal), "the bridge is out");
    EXPECT_EXIT(Play(Config(fault, 0), 0), testing::KilledBySignal(signal), "the bridge is out");
  }
  ChaosConfig config = Config(ChaosConfig::EXIT, 2);
  config.set_exit_status(7);
  EXPECT_EXIT(Play(config, 2), testing::ExitedWithCode(7), "the bridge is out");
  Play(config, 1);  // The fault comes later.
}

TEST(ChaosEnvTest, FailsAsConfigured) {
  Stage error(Config(ChaosConfig::ERROR, 0));
  EXPECT_THAT(error.Reset(), StatusIs(absl::StatusCode::kUnavailable, "chaos: an error"));
  Stage thrower(Config(ChaosConfig::THROW));
  ASSERT_THAT(thrower.Reset(), IsOk());
  EXPECT_THROW((void)thrower.Step(), std::runtime_error);
  Stage nan(Config(ChaosConfig::SHOW_NAN, 2));
  ASSERT_THAT(nan.Reset(), IsOk());
  ASSERT_THAT(nan.Step(), IsOk());
  EXPECT_EQ(nan.obs(0), 1);
  EXPECT_EQ(nan.obs(1), 0);
  ASSERT_THAT(nan.Step(), IsOk());
  EXPECT_TRUE(std::isnan(nan.obs(1)));
  Stage abnormal(Config(ChaosConfig::ABNORMAL));
  ASSERT_THAT(abnormal.Reset(), IsOk());
  ASSERT_THAT(abnormal.Step(), IsOk());
  EXPECT_TRUE(abnormal.result().abnormal);
}

TEST(ChaosEnvTest, ContinuesAfterAHangAndAfterTakingMemory) {
  ChaosConfig config = Config(ChaosConfig::HANG);
  config.set_hang_seconds(0.01);
  Play(config, 2);
  config.set_fault(ChaosConfig::HOG);
  config.set_hog_mb(2);
  Play(config, 2);
}

// CPU seconds of this thread.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ChaosEnvTest, BurnsAtLeastTheConfiguredTime) {
  ChaosConfig config;
  config.set_burn_us(500);
  const double before = CpuSeconds();
  Play(config, 10);
  EXPECT_GE(CpuSeconds() - before, 0.005);
}

TEST(ChaosEnvTest, AFaultLimitedToAnEpisodeOrAFileHappensOnce) {
  ChaosConfig config = Config(ChaosConfig::ABNORMAL);
  config.set_at_episode(2);
  Stage stage(config);
  for (int episode = 1; episode <= 3; ++episode) {
    ASSERT_THAT(stage.Reset(), IsOk());
    ASSERT_THAT(stage.Step(), IsOk());
    EXPECT_EQ(stage.result().abnormal, episode == 2);
  }
  config.clear_at_episode();
  config.set_once_file(testing::TempDir() + "/chaos_once");
  for (const bool strikes : {true, false}) {
    Stage renewed(config);
    ASSERT_THAT(renewed.Reset(), IsOk());
    ASSERT_THAT(renewed.Step(), IsOk());
    EXPECT_EQ(renewed.result().abnormal, strikes);
  }
}

TEST(ChaosEnvTest, ParametersOfAResetReplaceTheConfig) {
  Stage stage((ChaosConfig()));
  ASSERT_THAT(stage.Reset({{"fault", ChaosConfig::ABNORMAL}, {"at_step", 1}}), IsOk());
  ASSERT_THAT(stage.Step(), IsOk());
  EXPECT_TRUE(stage.result().abnormal);
  EXPECT_THAT(stage.Reset({{"fault", 99}}), IsInvalid("no fault 99"));
  EXPECT_THAT(stage.Reset({{"last_words", 1}}), IsInvalid("is not a number field"));
  EXPECT_THAT(stage.Reset({{"at_step", -1}}), IsInvalid("at_step is -1, expected at least 0"));
  EXPECT_THAT(stage.Reset({{"episode_length", 1}}), IsInvalid("the spec"));
  ASSERT_THAT(stage.Reset(), IsOk());
  ASSERT_THAT(stage.Step(), IsOk());
  EXPECT_FALSE(stage.result().abnormal);
}

TEST(ChaosEnvTest, IsRegisteredAndChecksItsConfig) {
  EnvConfig config;
  config.set_type("chaos");
  config.mutable_params()->PackFrom(Config(ChaosConfig::HANG));
  EXPECT_THAT(create_env(config), IsOk());
  ChaosConfig broken;
  broken.set_episode_length(0);
  EXPECT_THAT(CreateChaosEnv(broken), IsInvalid("episode_length is 0"));
  broken = Config(ChaosConfig::ABNORMAL, 0);
  EXPECT_THAT(CreateChaosEnv(broken), IsInvalid("cannot be abnormal"));
}

}  // namespace
}  // namespace ding
