// Tests runs of several learner tasks with real processes: both converge, whichever learner is
// killed, and a resumed run goes on with both.

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/parallel_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SeveralTasksRunTest : public ParallelTest {
 protected:
  static constexpr char kTwoTasks[] = "worker/configs/cartpole_dqn_two_tasks_parallel.textproto";

  // Waits until both policies have trained so many iterations.
  RunStatus WaitUntilTrained(const ChildProgram& program, int64_t first, int64_t second) {
    return WaitForStatus(program, [first, second](const RunStatus& status) {
      return status.trained_policy_size() == 2 && status.trained_policy(0).train_iter() >= first &&
             status.trained_policy(1).train_iter() >= second;
    });
  }
  // Interrupts and resumes a run of two learner tasks.
  void ExpectResumes(const std::string& config, const std::vector<std::string>& more,
                     const std::string& second_policy) {
    int64_t first = 0;
    int64_t second = 0;
    {
      const auto program = Start("run", Args(config, "a", more));
      const RunStatus before = WaitUntilTrained(*program, 200, 200);
      first = before.trained_policy(0).train_iter();
      second = before.trained_policy(1).train_iter();
      Interrupt(program.get());
    }
    std::vector<std::string> again = more;
    again.push_back("--resume");
    const auto program = Start("resumed", Args(config, "a", again));
    const RunStatus after = WaitUntilTrained(*program, first, second);
    EXPECT_EQ(after.trained_policy(0).policy_id(), "policy_0");
    EXPECT_EQ(after.trained_policy(1).policy_id(), second_policy);
    for (const char* learner : {"learner-0", "learner-1"}) {
      EXPECT_TRUE(Eventually([&] {
        return absl::StrContains(Log("a", learner), "loaded checkpoint ");
      })) << learner;
    }
    WaitUntilTrained(*program, after.trained_policy(0).train_iter() + 1,
                     after.trained_policy(1).train_iter() + 1);
    Interrupt(program.get());
  }
  static void Kill(int64_t pid) {
    ASSERT_GT(pid, 0);
    kill(static_cast<pid_t>(pid), SIGKILL);
  }
};

TEST_F(SeveralTasksRunTest, BothConvergeThoughEachLearnerIsKilled) {
  // Without the pause it may have converged before the second learner is killed.
  const auto program = Start("run", Args(kTwoTasks, "a",
                                         {"--set=policy.learn.learner.hook.save_ckpt_seconds=0.1",
                                          "--set=policy.other.commander.stop_after_seconds=12"}));
  RunStatus before = WaitUntilTrained(*program, 100, 100);
  for (const char* killed : {"learner-0", "learner-1"}) {
    const std::string other = killed == absl::string_view("learner-0") ? "learner-1" : "learner-0";
    const int64_t pid = PidOf(before, killed);
    const std::string task = Find(before, other)->task_id();
    Kill(pid);
    const RunStatus after = WaitForStatus(*program, [&](const RunStatus& status) {
      const WorkerStatus* const learner = Find(status, killed);
      return learner != nullptr && learner->pid() != pid && !learner->task_id().empty();
    });
    EXPECT_EQ(PidOf(after, other), PidOf(before, other));
    EXPECT_EQ(Find(after, other)->task_id(), task) << "it was left alone";
    before = WaitUntilTrained(*program, after.trained_policy(0).train_iter() + 1,
                              after.trained_policy(1).train_iter() + 1);
  }
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  DING_ASSERT_OK_AND_ASSIGN(const std::string result,
                            ReadFile(JoinPath(RunPath("a"), "result.json")));
  EXPECT_THAT(result, AllOf(HasSubstr("\"policy\":\"policy_0\",\"stop\":true"),
                            HasSubstr("\"policy\":\"policy_1\",\"stop\":true")));
  for (const char* folder : {"ckpt_policy_0", "ckpt_policy_1"}) {
    EXPECT_TRUE(PathExists(JoinPath(RunPath("a"), absl::StrCat(folder, "/learner_resume"))));
  }
}

TEST_F(SeveralTasksRunTest, AResumedRunGoesOnWithBoth) {
  ExpectResumes(kTwoTasks, {"--set=env.stop_value=1000"}, "policy_1");
}

TEST_F(SeveralTasksRunTest, AResumedRunGoesOnWithTheOpponent) {
  ExpectResumes("worker/configs/tictactoe_dqn_parallel.textproto",
                {"--set=env.stop_value=1000",
                 "--set=opponent={type:\"dqn\" learns:true params{"
                 "[type.googleapis.com/ding.DqnConfig]{model{encoder_hidden_size:[24]}}}}"},
                "opponent_1");
  EXPECT_TRUE(PathExists(JoinPath(RunPath("a"), "ckpt_opponent/learner_resume")));
}

TEST_F(SeveralTasksRunTest, LearnersOfOneTaskAndSeveralTasksAreRefusedTogether) {
  const auto program = Run("run", Args(kTwoTasks, "a", {"--set=policy.learn.learner_num=2"}));
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("policy.learn.learner_num is 2"), HasSubstr("learner_task_space 2")));
  EXPECT_THAT(program->err(), Not(HasSubstr("coordinator:")));
}

}  // namespace
}  // namespace ding
