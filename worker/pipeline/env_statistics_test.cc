// Statistics of envs (wrapper normalize_observation) in runs: every checkpoint holds them,
// evaluations use those that the policy was trained with, runs that are resumed go on exactly, and
// what cannot share them refuses them.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;

constexpr char kConfig[] = R"(
max_env_step: 400
env {
  type: "CartPole-v0"
  collector_env_num: 2
  evaluator_env_num: 2
  n_evaluator_episode: 2
  wrapper { type: "normalize_observation" }
  wrapper { type: "normalize_reward" in_evaluation: false }
}
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 learner { hook { save_ckpt_after_iter: 0 } } }
  collect { n_sample: 4 }
  eval { evaluator { eval_freq: 10 } }
}
resume { period_seconds: 0 period_rounds: 10 })";

class EnvStatisticsTest : public testing::Test {
 protected:
  // Runs, or goes on with, the run in the folder `name`.
  absl::StatusOr<SerialResult> Run(
      const std::string& name, const std::vector<std::string>& settings = {},
      const std::function<bool()>& interrupted = [] { return false; }) {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                          ParseExperimentConfig(kConfig, "test", settings));
    SerialOptions options;
    options.exp_dir = JoinPath(folder_, name);
    options.interrupted = interrupted;
    DING_RETURN_IF_ERROR(CreateDirectories(options.exp_dir));
    DING_ASSIGN_OR_RETURN(const std::optional<ResumePoint> point,
                          OpenNewestResumePoint(options.exp_dir));
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<SerialPipeline> pipeline,
                          SerialPipeline::Create(config, options));
    if (point.has_value()) DING_RETURN_IF_ERROR(pipeline->Resume(point->checkpoint));
    SerialResult result;
    DING_RETURN_IF_ERROR(pipeline->Run(&result));
    return result;
  }
  std::string Checkpoint(const std::string& run, const std::string& name) const {
    return absl::StrCat(JoinPath(folder_, run), "/ckpt/", name);
  }
  std::string Bytes(const std::string& run, const std::string& name,
                    const std::string& component) const {
    return *ReadFile(absl::StrCat(Checkpoint(run, name), "/", component, ".safetensors"));
  }

  const std::string folder_ = FreshTestFolder();
};

TEST_F(EnvStatisticsTest, AreInEveryCheckpointAndEvaluationsUseThem) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run("run"));
  const std::string last = absl::StrCat("iteration_", result.train_iter);
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader checkpoint,
                            CheckpointReader::Open(Checkpoint("run", last)));
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<StateReader> statistics,
                            checkpoint.Component("env_statistics"));
  // Each step shows a row; a step that ends an episode shows two.
  EXPECT_GT(statistics->ReadInt("obs/count").value(), result.env_step);
  EXPECT_LT(statistics->ReadInt("obs/count").value(), 2 * result.env_step);

  EvaluationOptions options;
  options.checkpoint = Checkpoint("run", last);
  options.n_episode = 4;
  options.record_episodes = JoinPath(folder_, "with");
  ASSERT_THAT(EvaluateCheckpoint(options), IsOk());
  // With other statistics the same episodes look different.
  StateDict others;
  ASSERT_THAT(others.WriteInt("obs/count", 100), IsOk());
  ASSERT_THAT(others.WriteSpan<double>("obs/mean", {9, 9, 9, 9}), IsOk());
  ASSERT_THAT(others.WriteSpan<double>("obs/sum_of_squares", {1, 1, 1, 1}), IsOk());
  std::vector<CheckpointComponent> components;
  std::vector<std::unique_ptr<StateReader>> readers;
  std::vector<StateDict> copies(1);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<StateReader> model,
                            checkpoint.Component("model"));
  for (const std::string& name : model->Names()) {
    ASSERT_THAT(copies[0].WriteTensor(name, model->ReadTensor(name).value()), IsOk());
  }
  components.push_back({"model", [&](StateWriter* writer) { return copies[0].SaveState(writer); }});
  const std::string without = JoinPath(folder_, "without");
  ASSERT_THAT(WriteCheckpoint(without, checkpoint.info(), components), IsOk());
  components.push_back(
      {"env_statistics", [&](StateWriter* writer) { return others.SaveState(writer); }});
  const std::string changed = JoinPath(folder_, "changed");
  ASSERT_THAT(WriteCheckpoint(changed, checkpoint.info(), components), IsOk());
  options.checkpoint = changed;
  options.record_episodes = JoinPath(folder_, "other");
  ASSERT_THAT(EvaluateCheckpoint(options), IsOk());
  EXPECT_TRUE(*ReadFile(JoinPath(folder_, "with")) != *ReadFile(JoinPath(folder_, "other")));
  options.checkpoint = Checkpoint("run", last);
  options.record_episodes = JoinPath(folder_, "again");
  ASSERT_THAT(EvaluateCheckpoint(options), IsOk());
  EXPECT_TRUE(*ReadFile(JoinPath(folder_, "with")) == *ReadFile(JoinPath(folder_, "again")));
  options.checkpoint = without;
  EXPECT_THAT(std::string(EvaluateCheckpoint(options).status().message()),
              HasSubstr("env_statistics"));
}

TEST_F(EnvStatisticsTest, ARunThatIsResumedEndsInTheSameWay) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult whole, Run("whole"));
  int polls = 0;
  ASSERT_THAT(Run("parts", {}, [&polls] { return ++polls > 37; }), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult parts, Run("parts"));
  EXPECT_EQ(parts.env_step, whole.env_step);
  EXPECT_EQ(parts.eval_value_raw, whole.eval_value_raw);
  const std::string last = absl::StrCat("resume_", whole.env_step);
  for (const char* component :
       {"model", "env_statistics", "collector_env", "evaluator_env", "replay_buffer"}) {
    EXPECT_EQ(Bytes("parts", last, component), Bytes("whole", last, component)) << component;
  }
}

TEST_F(EnvStatisticsTest, AnEvaluationWithoutThemIsRefused) {
  EXPECT_THAT(
      Run("run", {"env.wrapper=[{type:\"normalize_observation\" in_evaluation:false}]"}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in_evaluation: false")));
}

}  // namespace
}  // namespace ding
