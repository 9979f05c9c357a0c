// What a run tells its metric sinks.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr char kConfig[] = R"(
max_env_step: 200
env { type: "CartPole-v0" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 learner { hook { log_show_after_iter: 10 } } }
  collect { n_sample: 4 collector { collect_print_freq: 10 } }
  eval { evaluator { eval_freq: 10 } }
})";

// Records the beginning and the end of a run, too.
class RunSink : public RecordingSink {
 public:
  void BeginRun(const RunDescription& run) override { begun = run; }
  void EndRun(RunEnd how, int64_t step, const RunResults& values) override {
    end = how;
    end_step = step;
    results = values;
  }

  RunDescription begun;
  RunEnd end = RunEnd::kFailed;
  int64_t end_step = -1;
  RunResults results;
};

class RunMetricsTest : public testing::Test {
 protected:
  RunMetricsTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/metrics_XXXXXX");
    folder_ = mkdtemp(folder.data());
    options_.exp_dir = folder_;
    options_.metrics = sink_;
  }
  ~RunMetricsTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(
      const std::vector<std::string>& settings = {}) {
    const absl::StatusOr<ExperimentConfig> config =
        ParseExperimentConfig(kConfig, "test", settings);
    EXPECT_THAT(config, IsOk());
    return SerialPipeline::Create(*config, options_);
  }
  // Runs, and returns the parameters at the end.
  std::string Run(const std::vector<std::string>& settings) {
    absl::StatusOr<std::unique_ptr<SerialPipeline>> pipeline = Create(settings);
    EXPECT_THAT(pipeline, IsOk());
    SerialResult result;
    EXPECT_THAT((*pipeline)->Run(&result), IsOk());
    const absl::StatusOr<std::string> model =
        ReadFile(JoinPath(folder_, "ckpt/iteration_49/model.safetensors"));
    EXPECT_THAT(model, IsOk());
    EXPECT_THAT(RemoveRecursively(JoinPath(folder_, "ckpt")), IsOk());
    return model.ok() ? *model : "";
  }

  std::string folder_;
  std::shared_ptr<RunSink> sink_ = std::make_shared<RunSink>();
  SerialOptions options_;
};

TEST_F(RunMetricsTest, ADqnRunHasTheMetricsThatPeopleLookFor) {
  Run({});
  const std::vector<std::string> tags = sink_->ScalarTags();
  EXPECT_THAT(
      tags,
      IsSupersetOf(
          {"collector_step/eps", "collector_step/reward_mean", "evaluator_step/reward_mean",
           "learner_step/cur_lr_avg", "learner_step/grad_norm_avg", "learner_step/q_value_avg",
           "learner_step/target_q_value_avg", "learner_step/td_error_avg",
           "learner_step/total_loss_avg", "replay_buffer_step/age", "replay_buffer_step/rows",
           "run_step/collect_seconds", "run_step/env_steps_per_second", "run_step/evaluate_seconds",
           "run_step/learn_seconds", "run_step/save_seconds", "run_step/updates_per_second"}));
  EXPECT_EQ(sink_->ValuesOf("replay_buffer_step/rows").back(), 200);
  EXPECT_THAT(sink_->ValuesOf("replay_buffer_step/age").back(), Ge(1));
  ASSERT_THAT(sink_->histograms(), SizeIs(4));
  EXPECT_EQ(sink_->histograms()[0].tag, "learner_step/td_error");
  EXPECT_THAT(sink_->histograms()[0].values, SizeIs(8));
}

TEST_F(RunMetricsTest, TheConfigChoosesTheAxis) {
  const auto is_over_iters = [](const std::string& tag) {
    return absl::StrContains(tag, "_iter/");
  };
  const auto is_over_steps = [](const std::string& tag) {
    return absl::StrContains(tag, "_step/");
  };
  Run({});
  std::vector<std::string> tags = sink_->ScalarTags();
  EXPECT_EQ(std::count_if(tags.begin(), tags.end(), is_over_iters), 0);
  options_.metrics = sink_ = std::make_shared<RunSink>();
  Run({"metrics.x_axis=TRAIN_ITER"});
  tags = sink_->ScalarTags();
  EXPECT_EQ(std::count_if(tags.begin(), tags.end(), is_over_steps), 0);
  EXPECT_GT(std::count_if(tags.begin(), tags.end(), is_over_iters), 20);
  options_.metrics = sink_ = std::make_shared<RunSink>();
  Run({"metrics.x_axis=BOTH"});
  EXPECT_THAT(sink_->ScalarTags(),
              IsSupersetOf({"learner_iter/total_loss_avg", "learner_step/total_loss_avg"}));
}

TEST_F(RunMetricsTest, TheyDoNotChangeWhatIsTrained) {
  const std::string with = Run({});
  options_.metrics = sink_ = std::make_shared<RunSink>();
  EXPECT_EQ(Run({"metrics.files=false"}), with);
  EXPECT_THAT(sink_->ScalarTags(), IsEmpty());
}

TEST_F(RunMetricsTest, SinksGetTheSettingsThatAreNotDefaultsAndTheResults) {
  Run({"policy.learn.batch_size=8", "exp_name=br_\xE5\x90\x8D \xC3\xBC \"q\""});
  EXPECT_THAT(sink_->begun.hyperparameters,
              Contains(Pair("exp_name", "br_\xE5\x90\x8D \xC3\xBC \"q\"")));
  EXPECT_THAT(sink_->begun.hyperparameters, Contains(Pair("policy.learn.batch_size", "8")));
  EXPECT_THAT(sink_->begun.hyperparameters, Contains(Pair("policy.type", "dqn")));
  EXPECT_THAT(sink_->begun.hyperparameters,
              testing::Not(Contains(Pair("policy.discount_factor", testing::_))));
  EXPECT_EQ(sink_->end, RunEnd::kFinished);
  EXPECT_EQ(sink_->end_step, 200);
  EXPECT_THAT(sink_->results, ElementsAre(Pair("final_eval", Ge(8)), Pair("env_steps", 200),
                                          Pair("wall_seconds", Ge(0))));
}

TEST_F(RunMetricsTest, AnInterruptedRunSaysSo) {
  options_.interrupted = [] { return true; };
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, Create());
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_EQ(sink_->end, RunEnd::kInterrupted);
}

TEST_F(RunMetricsTest, TheProgressShowsReturnLossAndEpsilon) {
  ProgressValues values;
  SerialPipeline* running = nullptr;
  options_.progress = [&](const ProgressState&) { values = running->progress_values(); };
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, Create());
  running = pipeline.get();
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_THAT(values,
              ElementsAre(Pair("return", Ge(8)), Pair("loss", Ge(0)), Pair("eps", Ge(0.05))));
}

}  // namespace
}  // namespace ding
