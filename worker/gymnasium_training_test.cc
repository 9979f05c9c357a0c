// A CartPole of Python, trained by a shipped config, gives the same policy, bit for bit, as the one of C++.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/serial_run/create_pipeline.h"
#include "ding_worker/worker/serial_run/pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// What a run has learned, and how it plays.
struct Trained {
  std::vector<double> returns;
  std::string model;
};

Trained Train(const std::string& folder, const std::vector<std::string>& env) {
  std::vector<std::string> settings = {"max_env_step=2048", "env.evaluator_env_num=2",
                                       "env.n_evaluator_episode=2", "seed=3"};
  settings.insert(settings.end(), env.begin(), env.end());
  const ExperimentConfig config =
      LoadExperimentConfig("worker/configs/cartpole_v1_dqn.textproto", settings).value();
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

TEST(GymnasiumTrainingTest, APythonEnvTrainsThePolicyOfTheOneOfCpp) {
  const std::string folder = FreshTestFolder();
  ASSERT_TRUE(CreateNewDirectory(absl::StrCat(folder, "/cpp")).ok());
  ASSERT_TRUE(CreateNewDirectory(absl::StrCat(folder, "/python")).ok());
  const Trained cpp = Train(absl::StrCat(folder, "/cpp"), {});
  const Trained python = Train(absl::StrCat(folder, "/python"),
                               {"env.type=gymnasium",
                                R"(env.params={[type.googleapis.com/ding.GymnasiumConfig]{
                entry_point: "cartpole:CartPole" python: "/usr/bin/python3"
                python_path: "env/gymnasium/testdata"}})",
                                "env.manager.envs_per_process=4"});
  EXPECT_EQ(python.returns, cpp.returns);
  EXPECT_FALSE(cpp.model.empty());
  EXPECT_TRUE(python.model == cpp.model);
}

}  // namespace
}  // namespace ding
