// Info fields that an env declares (EnvSpec::info), in whole runs: a hook of the learner finds them
// beside the observations in what a buffer draws, in one process and in parallel.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/telling_env.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::Not;

constexpr char kSetting[] = "policy.learn.learner.hook.hook=[{type:\"see_info\" name:\"see\"}]";
constexpr char kDqn[] =
    "policy={type:\"dqn\" params{[type.googleapis.com/ding.DqnConfig]{model{"
    "encoder_hidden_size:[8]}}} learn{batch_size:8} collect{n_sample:8}}";

// Compares the info of each row of a batch with the observation before its step, and its action.
class SeeInfoHook : public LearnerHook {
 public:
  explicit SeeInfoHook(std::atomic<int64_t>* rows)
      : LearnerHook("see", 20, HookPosition::kAfterIter), rows_(*rows) {}

  absl::Status Call(LearnerView* learner) override {
    const Batch& batch = *learner->current_batch();
    const absl::Span<const float> obs = batch.column<float>("obs");
    const absl::Span<const int64_t> action = batch.column<int64_t>("action");
    const absl::Span<const int64_t> step = batch.column<int64_t>("info/step");
    const absl::Span<const double> position = batch.column<double>("info/position");
    const absl::Span<const int32_t> goal = batch.column<int32_t>("info/goal");
    for (size_t i = 0; i < step.size(); ++i) {
      const auto t = static_cast<int64_t>(obs[i]) + 1;
      if (step[i] != t || position[2 * i + 1] != static_cast<double>(action[i]) ||
          goal[4 * i + 3] != 4 * t) {
        return absl::DataLossError(absl::StrCat("row ", i, " has the info of another one"));
      }
      ++rows_;
    }
    return absl::OkStatus();
  }

 private:
  std::atomic<int64_t>& rows_;
};

class InfoColumnsTest : public testing::Test {
 protected:
  InfoColumnsTest()
      : env_(&EnvRegistry(), "telling", [](const EnvConfig&) { return TellingEnv::Make(); }),
        hook_(&LearnerHookRegistry(), "see_info",
              [this](const LearnerHookConfig&) -> absl::StatusOr<std::shared_ptr<LearnerHook>> {
                return std::make_shared<SeeInfoHook>(&rows_);
              }) {}

  const std::string folder_ = FreshTestFolder();
  std::atomic<int64_t> rows_{0};
  ScopedRegistration<EnvCreator> env_;
  ScopedRegistration<LearnerHookCreator> hook_;
};

TEST_F(InfoColumnsTest, SerialRun_HooksAndMetrics) {
  for (const std::string buffer : {"naive", "advanced"}) {
    rows_ = 0;
    const auto config = ParseExperimentConfig(
        "exp_name: \"test\" max_env_step: 200 env { type: \"telling\" collector_env_num: 2 "
        "evaluator_env_num: 1 n_evaluator_episode: 1 }",
        "test",
        {
            kDqn,
            kSetting,
            absl::StrCat("policy.other.replay_buffer.type=", buffer),
        });
    ASSERT_THAT(config, IsOk());
    const auto sink = std::make_shared<RecordingSink>();
    SerialOptions options;
    options.exp_dir = folder_;
    options.metrics = sink;
    DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, SerialPipeline::Create(*config, options));
    SerialResult result;
    ASSERT_THAT(pipeline->Run(&result), IsOk());
    EXPECT_GT(rows_, 100);
    EXPECT_THAT(sink->ValuesOf("evaluator_step/info/step_mean"),
                AllOf(Not(IsEmpty()), Each(AllOf(Ge(3), Le(5)))));
  }
}

TEST_F(InfoColumnsTest, ParallelRun_Hooks) {
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig config,
      LoadExperimentConfig(
          "worker/configs/cartpole_dqn_parallel_fast.textproto",
          {"env.type=telling", "env.stop_value=1000", "env.collector_env_num=2",
           "env.evaluator_env_num=2", "max_train_iter=50",
           "policy.other.commander.eval_interval=0.2", "policy.nstep=1", kSetting}));
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store, create_store("mem:"));
  InProcessTransport transport;
  ComponentDeps deps;
  deps.exp_dir = folder_;
  const InProcessRun run = RunInProcess(config, deps, store.get(), &transport, &transport);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  EXPECT_GE(rows_, 50 * 32);
}

}  // namespace
}  // namespace ding
