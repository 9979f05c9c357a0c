#include "ding_worker/worker/tasks/task_config.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TaskConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    const EnvSpec env = SpecOfEnv(run_, Clock::Real()).value();
    PolicyModes modes;
    const std::unique_ptr<Policy> policy =
        create_policy(MakePolicyConfig(run_), MakePolicyContext(run_, env, modes)).value();
    checks_ = std::make_unique<TaskSettings>(
        run_, env, LayoutOfCollected(env, policy->collect_mode()).value().rows, Clock::Real());
  }
  static LearnerTask Learner(const std::vector<std::string>& settings) {
    LearnerTask task;
    task.set_task_id("learner_task_1");
    task.mutable_setting()->Add(settings.begin(), settings.end());
    return task;
  }
  static CollectorTask Collector(const std::vector<std::string>& settings) {
    CollectorTask task;
    task.set_task_id("collector_task_9");
    task.mutable_setting()->Add(settings.begin(), settings.end());
    return task;
  }
  absl::Status CheckLearner(const std::vector<std::string>& settings) {
    StartTask task;
    *task.mutable_learner() = Learner(settings);
    return checks_->Check(task);
  }
  absl::Status CheckCollector(const std::vector<std::string>& settings) {
    StartTask task;
    *task.mutable_collector() = Collector(settings);
    return checks_->Check(task);
  }
  // An error that names the commander, the task and what is wrong.
  static auto Refuses(const std::string& task, const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("commander 'solo'"), HasSubstr(task), HasSubstr(what)));
  }

  const ExperimentConfig run_ =
      LoadExperimentConfig("worker/configs/cartpole_dqn_two_tasks_parallel.textproto",
                           {"policy.other.replay_buffer.replay_ratio={min: 1 max: 4}"})
          .value();
  std::unique_ptr<TaskSettings> checks_;
};

TEST_F(TaskConfigTest, IsThatOfTheRunWithTheSettingsOfTheTask) {
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig same, ConfigOfTask(run_, Learner({})));
  EXPECT_EQ(same.SerializeAsString(), run_.SerializeAsString());
  const std::vector<std::string> settings = {"policy.params.learning_rate=0.25",
                                             "policy.discount_factor=0.5",
                                             "policy.other.replay_buffer.replay_buffer_size=777"};
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig own, ConfigOfTask(run_, Learner(settings)));
  EXPECT_EQ(own.policy().discount_factor(), 0.5);
  EXPECT_EQ(own.policy().other().replay_buffer().discount_factor(), 0.5);
  EXPECT_EQ(own.policy().other().replay_buffer().replay_buffer_size(), 777);
  EXPECT_THAT(own.policy().params().ShortDebugString(), HasSubstr("0.25"));
  EXPECT_EQ(own.policy().learn().batch_size(), run_.policy().learn().batch_size());
  EXPECT_THAT(CheckLearner(settings), IsOk());
  EXPECT_THAT(CheckLearner(settings), IsOk()) << "again";
}

TEST_F(TaskConfigTest, ACollectorTaskMayHaveAnotherEnv) {
  const std::vector<std::string> settings = {"env.type=CartPole-v1", "env.collector_env_num=3"};
  EXPECT_THAT(CheckCollector(settings), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig own, ConfigOfTask(run_, Collector(settings)));
  EXPECT_EQ(own.env().type(), "CartPole-v1");
  EXPECT_EQ(own.env().collector_env_num(), 3);
}

TEST_F(TaskConfigTest, SettingsThatAreNoneAreRefused) {
  EXPECT_THAT(CheckLearner({"policy.learn.batch_sise=3"}), Refuses("learner_task_1", "batch_sise"));
  EXPECT_THAT(CheckLearner({"policy.params.learning_rate=fast"}),
              Refuses("learner_task_1", "learning_rate"));
  EXPECT_THAT(CheckLearner({"policy.discount_factor"}), Refuses("learner_task_1", "="));
  EXPECT_THAT(CheckLearner({""}), Refuses("learner_task_1", "''"));
  EXPECT_THAT(CheckCollector({"env.collector_env_num=0"}),
              Refuses("collector_task_9", "env.collector_env_num"));
}

TEST_F(TaskConfigTest, ATaskDoesNotChangeTheRun) {
  EXPECT_THAT(CheckLearner({"system.store_url=file:/tmp"}),
              Refuses("learner_task_1", "system.store_url"));
  EXPECT_THAT(CheckLearner({"max_env_step=5"}), Refuses("learner_task_1", "max_env_step=5"));
  EXPECT_THAT(CheckCollector({"env.stop_value=5"}), Refuses("collector_task_9", "env.stop_value"));
  EXPECT_THAT(CheckCollector({"env={type: \"CartPole-v0\" stop_value: 5}"}),
              Refuses("collector_task_9", "stop_value: 5"));
  EXPECT_THAT(CheckCollector({"policy.learn.batch_size=5"}),
              Refuses("collector_task_9", "policy.learn.batch_size"));
  EXPECT_THAT(CheckLearner({"env.type=CartPole-v1"}), Refuses("learner_task_1", "env.type"));
  EXPECT_THAT(CheckLearner({"policy.other.replay_buffer={replay_buffer_size: 5}"}),
              Refuses("learner_task_1", "replay_ratio"));
  EXPECT_THAT(CheckLearner({"policy.learn.batch_size=128"}),
              Refuses("learner_task_1", "batch_size: 128"))
      << "the replay ratio allows for batches of 64";
}

TEST_F(TaskConfigTest, SettingsWithoutEffectAreRefused) {
  EXPECT_THAT(
      CheckLearner({"policy.learn.update_per_collect=3"}),
      Refuses("learner_task_1", "policy.learn.update_per_collect is 3, which has no effect"));
  EXPECT_THAT(CheckLearner({"policy.learn.max_data_age=3"}),
              Refuses("learner_task_1", "it is for on-policy policies"));
}

TEST_F(TaskConfigTest, SettingsThatAWorkerCouldNotUseAreRefused) {
  EXPECT_THAT(CheckCollector({"env.type=Pendulum-v1"}), Refuses("collector_task_9", "obs"));
  EXPECT_THAT(CheckCollector({"env.type=CartPole-v7"}), Refuses("collector_task_9", "CartPole-v7"));
  EXPECT_THAT(CheckLearner({"policy.params.learning_rate=-1"}),
              Refuses("learner_task_1", "learning_rate"));
  EXPECT_THAT(CheckLearner({"policy.other.replay_buffer.type=advancd"}),
              Refuses("learner_task_1", "advancd"));
  EXPECT_THAT(CheckLearner({"policy.learn.prefetch_batches=0"}),
              Refuses("learner_task_1", "policy.learn.prefetch_batches"));
}

}  // namespace
}  // namespace ding
