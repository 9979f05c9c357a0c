// Tests parallel runs in lockstep, between the threads of one process: the number of collectors
// changes nothing.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

ExperimentConfig Config(const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"policy.other.commander.collector_task_space=4",
                                       "env.collector_env_num=2", "env.stop_value=1e10"};
  settings.insert(settings.end(), more.begin(), more.end());
  return LoadExperimentConfig(absl::StrCat("worker/configs/", name, ".textproto"), settings)
      .value();
}

// Runs it to its end, and returns all bytes of the last checkpoint.
std::string Train(const ExperimentConfig& config, int collectors) {
  EXPECT_THAT(FindParallelProblems(config), IsEmpty());
  ComponentDeps deps;
  deps.exp_dir = JoinPath(testing::TempDir(), "lockstep");
  deps.seed = config.seed();
  InProcessTransport transport;
  const std::unique_ptr<Store> store = create_store("mem:").value();
  const InProcessRun run =
      RunInProcess(config, deps, store.get(), &transport, &transport, collectors);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  std::string bytes;
  for (const std::string component : {"model", "train_state", "learner"}) {
    bytes += ReadFile(JoinPath(deps.exp_dir,
                               absl::StrCat("ckpt/learner_resume/", component, ".safetensors")))
                 .value();
  }
  std::filesystem::remove_all(deps.exp_dir);
  return bytes;
}

struct Policy {
  std::string config;
  std::vector<std::string> settings;
};

class LockstepTest : public testing::TestWithParam<Policy> {};

TEST_P(LockstepTest, OneTwoAndFourCollectors_GiveTheSameBytes) {
  std::vector<std::string> settings = GetParam().settings;
  settings.push_back("system.lockstep=true");
  const ExperimentConfig config = Config(GetParam().config, settings);
  const std::string one = Train(config, 1);
  EXPECT_TRUE(one == Train(config, 2));
  EXPECT_TRUE(one == Train(config, 4));
  EXPECT_TRUE(one == Train(config, 4));
  ExperimentConfig other = config;
  other.set_seed(config.seed() + 1);
  EXPECT_FALSE(one == Train(other, 4));
}

INSTANTIATE_TEST_SUITE_P(
    Policies, LockstepTest,
    testing::Values(Policy{"cartpole_dqn_parallel_fast", {"max_train_iter=205"}},
                    Policy{"cartpole_dqn_parallel_fast",
                           {"max_env_step=4000", "policy.learn.loader_threads=2",
                            "policy.priority=true", "policy.other.replay_buffer.type=advanced",
                            "policy.other.replay_buffer.replay_buffer_size=1000"}},
                    Policy{"cartpole_ppo_parallel", {"max_env_step=10000"}},
                    Policy{"cartpole_ppo_parallel", {"max_train_iter=100"}},
                    Policy{"cartpole_masked_r2d2_parallel",
                           {"max_train_iter=40", "env.collector_episode_num=4",
                            "policy.other.replay_buffer.replay_ratio={}"}}),
    [](const auto& info) { return absl::StrCat(info.param.config, "_", info.index); });

TEST(LockstepRunTest, WithoutLockstep_TwoRunsDiffer) {
  const ExperimentConfig config = Config("cartpole_dqn_parallel_fast", {"max_train_iter=400"});
  EXPECT_FALSE(Train(config, 4) == Train(config, 4));
}

TEST(LockstepRunTest, SettingsThatCannotBeInLockstep_AreRefused) {
  const std::vector<std::string> lockstep = {"system.lockstep=true", "max_train_iter=400"};
  for (const auto& [setting, expected] : std::vector<std::pair<std::string, std::string>>{
           {"env.stop_value=195", "env.stop_value is 195: expected 1e10"},
           {"max_train_iter=0", "neither max_train_iter nor max_env_step is set"},
           {"system.max_seconds=10", "system.max_seconds is set: expected 0"},
           {"stopper=[{type:\"value_reached\"}]", "there is a stopper"},
           {"policy.learn.learner.train_iterations=10", "train_iterations is set"},
           {"policy.learn.max_data_age=2", "max_data_age is set"},
           {"env.manager={type:\"async_subprocess\"}", "expected wait_num: 0"},
           {"policy.other.replay_buffer={type:\"advanced\" params{[type.googleapis.com/ding."
            "AdvancedBufferConfig]{thruput_controller{push_sample_rate_limit{max:2}}}}}",
            "push_sample_rate_limit of policy.other.replay_buffer is set"},
           {"policy.other.commander={type:\"solo\"}", "collector_task_space is not set"},
           {"policy.random_collect_size=10", "policy.random_collect_size is above 0"},
           {"policy.other.replay_buffer.replay_ratio={max:1}", "replay_ratio is set"},
           {"policy.other.commander.learner_task_space=2", "learner_task_space is above 1"},
           {"policy.learn.learner_num=2", "learner_num is above 1"}}) {
    std::vector<std::string> settings = lockstep;
    settings.push_back(setting);
    EXPECT_THAT(FindParallelProblems(Config("cartpole_dqn_parallel_fast", settings)),
                Contains(HasSubstr(expected)));
  }
}

}  // namespace
}  // namespace ding
