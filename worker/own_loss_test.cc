// Tests runs whose loss is a function of tensors (policy/torch/torch_loss.h): they learn, go on
// exactly after an interruption, and work in parallel.
#include <atomic>
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
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kLoss[] = "policy.loss.type=\"counted\"";

std::atomic<int> computed{0};  // losses

// The loss of dqn by autograd, which counts how often it is computed.
class CountedLoss : public LossFunction {
 public:
  absl::StatusOr<LossValue> Compute(const LossInput& input) override {
    ++computed;
    return inner_->Compute(input);
  }

 private:
  const std::unique_ptr<LossFunction> inner_ = [] {
    LossConfig config;
    config.set_type("td_autograd");
    return LossRegistry().Create(config).value();
  }();
};
DING_REGISTER(
    LossRegistry(), "counted",
    [](const LossConfig&) -> absl::StatusOr<std::unique_ptr<LossFunction>> {
      return std::make_unique<CountedLoss>();
    },
    "that of dqn");

// Runs, or goes on with, the run in `folder`.
absl::StatusOr<SerialResult> Train(
    const std::string& folder, const std::vector<std::string>& settings,
    const std::function<bool()>& interrupted = [] { return false; }) {
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                        LoadExperimentConfig("worker/configs/cartpole_dqn.textproto", settings));
  SerialOptions options;
  options.exp_dir = folder;
  options.interrupted = interrupted;
  DING_RETURN_IF_ERROR(CreateDirectories(options.exp_dir));
  DING_ASSIGN_OR_RETURN(const std::optional<ResumePoint> point,
                        OpenNewestResumePoint(options.exp_dir));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Pipeline> pipeline, CreatePipeline(config, options));
  if (point.has_value()) DING_RETURN_IF_ERROR(pipeline->Resume(point->checkpoint));
  SerialResult result;
  DING_RETURN_IF_ERROR(pipeline->Run(&result));
  return result;
}

TEST(OwnLossTest, LearnsCartPole) {
  const int before = computed;
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result,
                            Train(FreshTestFolder(), {kLoss, "seed=0", "max_env_step=20000"}));
  EXPECT_TRUE(result.stop) << "it did not reach 195 within 20,000 env steps";
  EXPECT_EQ(computed - before, result.train_iter);
}

TEST(OwnLossTest, ARunThatIsResumedEndsInTheSameWay) {
  const std::string folder = FreshTestFolder();
  const std::vector<std::string> settings = {kLoss, "max_env_step=400", "env.stop_value=1000",
                                             "resume={period_seconds:0 period_rounds:10}"};
  const std::string whole = JoinPath(folder, "whole");
  const std::string parts = JoinPath(folder, "parts");
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Train(whole, settings));
  int polls = 0;
  ASSERT_THAT(Train(parts, settings, [&polls] { return ++polls > 27; }), IsOk());
  ASSERT_THAT(Train(parts, settings), IsOk());
  for (const char* const component : {"model", "train_state", "replay_buffer"}) {
    const std::string file =
        absl::StrCat("ckpt/resume_", result.env_step, "/", component, ".safetensors");
    EXPECT_TRUE(*ReadFile(JoinPath(parts, file)) == *ReadFile(JoinPath(whole, file))) << file;
  }
}

TEST(OwnLossTest, WorksInAParallelRun) {
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig config,
      LoadExperimentConfig("worker/configs/cartpole_dqn_parallel_fast.textproto",
                           {kLoss, "env.stop_value=1000", "env.collector_env_num=2",
                            "env.evaluator_env_num=2", "max_train_iter=100"}));
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store, create_store("mem:"));
  InProcessTransport transport;
  const int before = computed;
  ComponentDeps deps;
  deps.exp_dir = FreshTestFolder();
  const InProcessRun run = RunInProcess(config, deps, store.get(), &transport, &transport);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  EXPECT_GE(run.status.train_iter(), 100);
  EXPECT_GE(computed - before, 100);
}

TEST(OwnLossTest, AnUnknownOneIsRefusedBeforeTheRun) {
  EXPECT_THAT(
      std::string(
          Train(FreshTestFolder(), {"policy.loss.type=\"td_autograt\""}).status().message()),
      HasSubstr("'td_autograt'"));
}

}  // namespace
}  // namespace ding
