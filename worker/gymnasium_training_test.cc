// A CartPole of Python, trained by DQN and PPO as shipped configs say, gives the same policy, bit
// for bit, as the one of C++. The shipped configs for Gymnasium are those of C++ but for the env.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// What a run has learned, and how it plays.
struct Trained {
  std::vector<double> returns;
  std::string model;
};

Trained Train(const std::string& folder, const std::string& config_name,
              const std::vector<std::string>& env) {
  std::vector<std::string> settings = {"max_env_step=2048", "env.evaluator_env_num=2",
                                       "env.n_evaluator_episode=2", "seed=3"};
  settings.insert(settings.end(), env.begin(), env.end());
  const ExperimentConfig config =
      LoadExperimentConfig(absl::StrCat("worker/configs/", config_name, ".textproto"), settings)
          .value();
  SerialOptions options;
  options.exp_dir = folder;
  const std::unique_ptr<Pipeline> pipeline = CreatePipeline(config, options).value();
  SerialResult result;
  EXPECT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_EQ(result.env_step, 2048);
  const CheckpointReader checkpoint =
      CheckpointReader::Open(absl::StrCat(folder, "/ckpt/iteration_", result.train_iter)).value();
  const std::unique_ptr<StateReader> model = checkpoint.Component(kModelComponent).value();
  Trained trained;
  trained.returns = result.eval_value_raw;
  for (const std::string& name : model->Names()) {
    absl::StrAppend(&trained.model, name, " ", model->ReadTensor(name)->bytes());
  }
  return trained;
}

class GymnasiumTrainingTest : public testing::TestWithParam<const char*> {};

TEST_P(GymnasiumTrainingTest, APythonEnvTrainsThePolicyOfTheOneOfCpp) {
  const std::string folder = FreshTestFolder();
  ASSERT_TRUE(CreateNewDirectory(absl::StrCat(folder, "/cpp")).ok());
  ASSERT_TRUE(CreateNewDirectory(absl::StrCat(folder, "/python")).ok());
  const Trained cpp = Train(absl::StrCat(folder, "/cpp"), GetParam(), {});
  const Trained python = Train(absl::StrCat(folder, "/python"), GetParam(),
                               {"env.type=gymnasium",
                                R"(env.params={[type.googleapis.com/ding.GymnasiumConfig]{
                entry_point: "cartpole:CartPole" python: "/usr/bin/python3"
                python_path: "env/gymnasium/testdata"}})",
                                "env.manager.envs_per_process=4"});
  EXPECT_EQ(python.returns, cpp.returns);
  EXPECT_FALSE(cpp.model.empty());
  EXPECT_TRUE(python.model == cpp.model);
}

INSTANTIATE_TEST_SUITE_P(Configs, GymnasiumTrainingTest,
                         testing::Values("cartpole_v1_dqn", "cartpole_ppo"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return std::string(info.param);
                         });

ExperimentConfig PythonCartPole(std::vector<std::string> settings) {
  settings.insert(settings.begin(),
                  {"env.type=gymnasium", R"(env.params={[type.googleapis.com/ding.GymnasiumConfig]{
                entry_point: "cartpole:CartPole" python: "/usr/bin/python3"
                python_path: "env/gymnasium/testdata"}})"});
  return LoadExperimentConfig("worker/configs/cartpole_ppo.textproto", settings).value();
}

TEST(GymnasiumConfigTest, EnvsPerProcess_NotSet_OneProcessPerCore) {
  EXPECT_EQ(PythonCartPole({}).env().manager().type(), "subprocess");
  EXPECT_EQ(PythonCartPole({}).env().manager().envs_per_process(), 0);
  const std::string type = "env.manager.type=";
  EXPECT_EQ(PythonCartPole({type + "async_subprocess"}).env().manager().envs_per_process(), 0);
  EXPECT_EQ(PythonCartPole({type + "base"}).env().manager().envs_per_process(), 1);
  const std::string set = "env.manager.envs_per_process=1";
  EXPECT_EQ(PythonCartPole({set}).env().manager().envs_per_process(), 1);
}

class KeptLines : public LogSink {
 public:
  void Send(const LogLine& line) override { lines.emplace_back(line.message); }

  std::vector<std::string> lines;
};

TEST(GymnasiumConfigTest, EnvsPerProcess_MoreProcessesThanCores_WarnsOnce) {
  KeptLines log;
  LogSink* const before = SetLogSink(&log);
  const int env_num = UsableCores() + 1;
  EXPECT_THAT(MakeEnvManager(PythonCartPole({}), env_num, Clock::Real()), IsOk());
  EXPECT_THAT(log.lines, IsEmpty());
  const ExperimentConfig config = PythonCartPole({"env.manager.envs_per_process=1"});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(MakeEnvManager(config, env_num, Clock::Real()), IsOk());
  }
  SetLogSink(before);
  EXPECT_THAT(log.lines, ElementsAre(AllOf(HasSubstr("envs_per_process is 1"),
                                           HasSubstr("write envs_per_process: 0"))));
}

// Each env holds a lock of its number.
TEST(GymnasiumRunTest, NoTwoEnvsHaveTheSameNumber) {
  const std::string folder = FreshTestFolder();
  Train(folder, "cartpole_v1_dqn",
        {"env.type=gymnasium", "env.collector_env_num=2",
         absl::StrCat(R"(env.params={[type.googleapis.com/ding.GymnasiumConfig]{
            entry_point: "simulators:Numbered" python: "/usr/bin/python3"
            kwargs: '{"role": "{env_role}", "number": "{env_number}", "where": ")",
                      folder, R"("}' python_path: "env/gymnasium/testdata"}})")});
  const std::string numbers = ReadFile(absl::StrCat(folder, "/numbers")).value();
  const std::vector<std::string> lines = absl::StrSplit(numbers, '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, UnorderedElementsAre("probe 4 ", "collector 0 ", "collector 1 ",
                                          "evaluator 2 ", "evaluator 3 "));
}

// The bounds of its actions are float64 numbers that float32 does not have. The env refuses any
// action outside of them.
class NarrowActionsTest : public testing::TestWithParam<const char*> {};

TEST_P(NarrowActionsTest, ActionsAreInsideOfTheSpace_InItsDtype) {
  const std::string folder = FreshTestFolder();
  const ExperimentConfig config =
      LoadExperimentConfig(
          absl::StrCat("worker/configs/", GetParam(), ".textproto"),
          {"max_env_step=256", "env.collector_env_num=2", "env.evaluator_env_num=2",
           "env.n_evaluator_episode=2", "policy.learn.batch_size=16", "policy.collect.n_sample=32",
           "policy.eval.evaluator.eval_freq=20",
           R"(env.params={[type.googleapis.com/ding.GymnasiumConfig]{
                entry_point: "sample_envs:Narrow" python: "/usr/bin/python3"
                python_path: "env/gymnasium/testdata"}})",
           "env.type=gymnasium"})
          .value();
  SerialOptions options;
  options.exp_dir = folder;
  const std::unique_ptr<Pipeline> pipeline = CreatePipeline(config, options).value();
  SerialResult result;
  EXPECT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_EQ(result.eval_value_raw.size(), 2);
}

INSTANTIATE_TEST_SUITE_P(Configs, NarrowActionsTest,
                         testing::Values("pendulum_ppo", "pendulum_sac", "pendulum_td3",
                                         "pendulum_ddpg", "pendulum_redq"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return std::string(info.param);
                         });

TEST(GymnasiumConfigsTest, AreThoseOfCppButForTheEnv) {
  const struct {
    const char* python;
    const char* cpp;
  } kPairs[] = {{"gymnasium_cartpole_dqn", "cartpole_v1_dqn"},
                {"gymnasium_cartpole_ppo", "cartpole_ppo"}};
  for (const auto& [python, cpp] : kPairs) {
    const auto load = [](const char* name) {
      return LoadExperimentConfig(absl::StrCat("worker/configs/", name, ".textproto"), {}).value();
    };
    ExperimentConfig of_python = load(python);
    ExperimentConfig of_cpp = load(cpp);
    EXPECT_EQ(of_python.env().type(), "gymnasium");
    EXPECT_EQ(of_python.exp_name(), python);
    for (ExperimentConfig* const config : {&of_python, &of_cpp}) {
      config->clear_exp_name();
      config->mutable_env()->clear_type();
      config->mutable_env()->clear_params();
      config->mutable_env()->clear_manager();
    }
    EXPECT_EQ(of_python.DebugString(), of_cpp.DebugString());
  }
}

}  // namespace
}  // namespace ding
