#include "ding_worker/worker/tasks/configured_learner.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"
#include "ding_worker/interaction/all_reduce/tcp_all_reduce.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

class ConfiguredLearnerTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<TaskLearner>> Make(const std::string& policy_id,
                                                    const std::string& run, bool resume) {
    LearnerTask task;
    task.set_task_id("learner_task_0");
    task.set_policy_id(policy_id);
    task.set_resume(resume);
    ComponentDeps deps;
    deps.exp_dir = folder_;
    return MakeTaskLearnerFactory(config_, deps, /*place=*/0, run)(task, /*group=*/nullptr);
  }
  std::string Path(absl::string_view checkpoint) const {
    return absl::StrCat(folder_, "/ckpt/", checkpoint);
  }

  const std::string folder_ = FreshTestFolder();
  const ExperimentConfig config_ =
      LoadExperimentConfig("worker/configs/cartpole_dqn_parallel_fast.textproto", {}).value();
};

TEST_F(ConfiguredLearnerTest, ResumesOnlyFromACheckpointOfItsPolicyAndRun) {
  const std::unique_ptr<TaskLearner> first = Make("policy_0", "run-1", false).value();
  ASSERT_THAT(first->learner()->SetProgress(7, 70), IsOk());
  ASSERT_THAT(first->learner()->SaveCheckpoint(kResumeCheckpoint), IsOk());
  EXPECT_TRUE(Make("policy_0", "run-1", true).value()->resumes());
  EXPECT_THAT(Make("policy_0", "run-2", true).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is of run 'run-1'")));
  const std::unique_ptr<TaskLearner> next = Make("policy_1", "run-1", true).value();
  EXPECT_FALSE(next->resumes());
  ASSERT_THAT(next->learner()->SetProgress(1, 10), IsOk());
  ASSERT_THAT(next->learner()->SaveCheckpoint(kResumeCheckpoint), IsOk());
  EXPECT_TRUE(Make("policy_1", "run-1", true).value()->resumes())
      << "it took the place of a checkpoint of another policy, which had more iterations";
}

TEST_F(ConfiguredLearnerTest, SaveCheckpoint_CannotBeWritten_IsWrittenLater) {
  const std::unique_ptr<TaskLearner> made = Make("policy_0", "run-1", false).value();
  ILearner* const learner = made->learner();
  // Nobody may make files there.
  ASSERT_EQ(symlink("/proc/sys", JoinPath(folder_, "ckpt").c_str()), 0);
  for (int i = 1; i <= 6; ++i) {
    EXPECT_THAT(learner->SaveCheckpoint(absl::StrCat("iteration_", i)), IsOk());
  }
  EXPECT_EQ(learner->run_signals()->stop_request(), "");
  ASSERT_THAT(RemoveFile(JoinPath(folder_, "ckpt")), IsOk());
  EXPECT_THAT(learner->SaveCheckpoint("iteration_7"), IsOk());
  for (int i = 1; i <= 7; ++i) {
    EXPECT_EQ(PathExists(Path(absl::StrCat("iteration_", i))), i > 2) << "the newest are kept";
  }
}

ExperimentConfig WithAllReduce(const std::string& type) {
  return LoadExperimentConfig(
             "worker/configs/cartpole_dqn_parallel_fast.textproto",
             {"policy.learn.learner_num=2", absl::StrCat("policy.learn.all_reduce=", type)})
      .value();
}

TEST(ConfiguredAllReduceTest, ATypeOfOnesOwnIsChosenByItsName) {
  int connected = 0;
  const ScopedRegistration<AllReduceCreator> scoped(
      &AllReduceRegistry(), "own", [&](const AllReduceOptions& options, Rendezvous* rendezvous) {
        ++connected;
        return ConnectTcp(options, rendezvous);
      });
  EXPECT_THAT(CheckCanGroupLearners(WithAllReduce("own")), IsOk());
  const CommLearnerOptions options = MakeCommLearnerOptions(WithAllReduce("own"));
  EXPECT_THAT(options.connect_group(AllReduceOptions(), nullptr), IsOk());
  EXPECT_EQ(connected, 1);
}

TEST(ConfiguredAllReduceTest, ATypeThatIsNotLinkedIsRefusedWithThoseThatAre) {
  EXPECT_THAT(CheckCanGroupLearners(WithAllReduce("gloo")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("policy.learn.learner_num is 2 and policy.learn.all_reduce "
                                 "'gloo', but unknown all-reduce type 'gloo'; this program has: "
                                 "tcp; expected one of these")));
}

}  // namespace
}  // namespace ding
