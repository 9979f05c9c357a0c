#include "ding_worker/worker/tasks/task_envs.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// What the managers of the group have done.
struct Log {
  int made = 0;
  int launched = 0;
  bool fails = false;  // Reset() does, and closes the manager
};

class LoggedEnvs : public EnvManagerWrapper {
 public:
  LoggedEnvs(std::unique_ptr<EnvManager> inner, Log* log)
      : EnvManagerWrapper(std::move(inner)), log_(*log) {
    ++log_.made;
  }

  absl::Status Launch() override {
    ++log_.launched;
    return inner()->Launch();
  }
  using EnvManagerWrapper::Reset;
  absl::Status Reset() override {
    if (!log_.fails) return inner()->Reset();
    inner()->Close();
    return absl::InternalError("an env is broken");
  }

 private:
  Log& log_;
};

// CartPole-v1, as if it ran in programs of its own.
class TaskEnvsTest : public testing::Test {
 protected:
  TaskEnvsTest()
      : config_(LoadExperimentConfig("worker/configs/cartpole_dqn_parallel_fast.textproto",
                                     {"env.type=CartPole-v1"})
                    .value()),
        group_(&EnvGroupRegistry(), "CartPole-v1",
               [this](const EnvConfig& env, const EnvManagerConfig&,
                      int env_num) -> absl::StatusOr<std::unique_ptr<EnvManager>> {
                 const EnvFactory one = [env] { return create_env(env); };
                 EnvManagerConfig base;
                 base.set_type("base");
                 DING_ASSIGN_OR_RETURN(
                     std::unique_ptr<EnvManager> envs,
                     create_env_manager(base,
                                        std::vector<EnvFactory>(static_cast<size_t>(env_num), one),
                                        Clock::Real()));
                 return std::make_unique<LoggedEnvs>(std::move(envs), &log_);
               }) {
    config_.mutable_env()->clear_manager();
  }

  std::shared_ptr<EnvManager> Make(bool evaluates = false) {
    CollectorTask task;
    task.set_eval_flag(evaluates);
    return envs_.Make(config_, task, Clock::Real()).value();
  }
  // The first observations of a task, which it closes then.
  static std::vector<float> Play(EnvManager* envs, uint64_t seed) {
    EXPECT_TRUE(envs->closed());
    EXPECT_THAT(envs->Seed(seed, /*dynamic=*/true), IsOk());
    EXPECT_THAT(envs->Launch(), IsOk());
    EXPECT_FALSE(envs->closed());
    const ReadyObs ready = envs->ready_obs();
    const absl::Span<const float> obs = ready.obs.column<float>(0);
    EXPECT_EQ(ready.env_ids.size(), static_cast<size_t>(envs->env_num()));
    std::vector<float> values(obs.begin(), obs.end());
    envs->Close();
    EXPECT_TRUE(envs->closed());
    return values;
  }

  ExperimentConfig config_;
  Log log_;
  ScopedRegistration<EnvGroupCreator> group_;
  TaskEnvs envs_{0};
};

TEST_F(TaskEnvsTest, ALaterTask_HasTheSameEnvs_WhichBeginItsEpisodes) {
  const std::vector<float> first = Play(Make().get(), 1);
  const std::vector<float> second = Play(Make().get(), 2);
  EXPECT_EQ(log_.made, 1);
  EXPECT_EQ(log_.launched, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(Play(Make().get(), 1), first);
  // Envs of their own have the same episodes.
  EXPECT_EQ(Play(TaskEnvs(0).Make(config_, CollectorTask(), Clock::Real()).value().get(), 2),
            second);
}

TEST_F(TaskEnvsTest, ATaskThatNeedsOtherEnvs_HasNewOnes) {
  const EnvManager* const collecting = Make().get();
  const EnvManager* const evaluating = Make(/*evaluates=*/true).get();
  EXPECT_EQ(log_.made, 2);
  EXPECT_EQ(Make().get(), collecting);
  EXPECT_EQ(Make(/*evaluates=*/true).get(), evaluating);
  EXPECT_EQ(log_.made, 2);
  config_.mutable_env()->set_collector_env_num(3);
  EXPECT_EQ(Make()->env_num(), 3);
  EXPECT_EQ(log_.made, 3);
}

TEST_F(TaskEnvsTest, EnvsThatCannotBeReset_AreStartedAnew) {
  const std::vector<float> first = Play(Make().get(), 1);
  log_.fails = true;
  EXPECT_EQ(Play(Make().get(), 1), first);
  EXPECT_EQ(log_.made, 1);
  EXPECT_EQ(log_.launched, 2);
}

TEST_F(TaskEnvsTest, ATaskThatDidNotCloseItsEnvs_LeavesThemClosed) {
  ASSERT_THAT(Make()->Launch(), IsOk());
  EXPECT_TRUE(Make()->closed());
}

TEST_F(TaskEnvsTest, EnvsOfThisProcess_AreMadeAnew) {
  config_.mutable_env()->set_type("CartPole-v0");
  const std::weak_ptr<EnvManager> made = Make();
  EXPECT_TRUE(made.expired());
}

}  // namespace
}  // namespace ding
