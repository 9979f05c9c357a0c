// Tests a parallel run whose learner is two processes that learn together, as people start it: with
// real processes, some of which are killed. They use the default all-reduce in a program without
// libtorch, or Gloo if ALL_REDUCE=gloo is in the environment.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "ding_worker/worker/testing/child_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kConfig[] = "worker/configs/cartpole_dqn_parallel_fast.textproto";
constexpr char kPpoConfig[] = "worker/configs/cartpole_ppo_parallel.textproto";
// Only a broken program needs that long.
constexpr absl::Duration kPatience = absl::Minutes(4);

class AggregatedTest : public testing::Test {
 protected:
  AggregatedTest() {
    AdoptOrphans();
    std::string folder = absl::StrCat(testing::TempDir(), "/aggregated_XXXXXX");
    folder_ = mkdtemp(folder.data());
    run_ = JoinPath(folder_, absl::StrCat(Basename(folder_), "-run"));
  }
  ~AggregatedTest() override {
    EXPECT_THAT(ReapOrphans(absl::ZeroDuration()), IsEmpty()) << "processes were left";
    EXPECT_THAT(RemoveRecursively(folder_), IsOk());
  }

  // Starts a run with two learners.
  std::unique_ptr<ChildProgram> Start(const std::vector<std::string>& more,
                                      const char* config = kConfig) const {
    const bool gloo = std::getenv("ALL_REDUCE") != nullptr;
    const std::string path = gloo ? "worker/parallel_torch" : "worker/parallel";
    std::vector<std::string> args = {
        absl::StrCat("--config=", config), absl::StrCat("--exp_dir=", run_),
        "--set=policy.learn.learner_num=2", "--set=system.coordinator.lease_seconds=20"};
    if (gloo) args.emplace_back("--set=policy.learn.all_reduce=gloo");
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<ChildProgram>(path, args, JoinPath(folder_, "run"),
                                          std::function<void()>());
  }
  // Starts a run that lasts long enough for the test to disturb it before it converges.
  std::unique_ptr<ChildProgram> StartLong() const {
    return Start({"--set=policy.other.commander.stop_after_seconds=25",
                  "--set=policy.learn.learner.hook.save_ckpt_seconds=0.2"});
  }
  std::string Log(absl::string_view process) const {
    return ReadFile(JoinPath(run_, absl::StrCat("log/", process, "_logger.txt"))).value_or("");
  }
  // How often the aggregator has logged `what`.
  int Said(const std::string& what) const {
    const std::string log = Log("aggregator-0");
    int count = 0;
    for (size_t at = log.find(what); at != std::string::npos; at = log.find(what, at + 1)) ++count;
    return count;
  }
  bool WaitUntilSaid(const std::string& what, int times = 1) const {
    return Eventually([&] { return Said(what) >= times; }, kPatience);
  }
  absl::StatusOr<RunStatus> Ask(const std::string& address) {
    return AskStatus(address, "test", absl::Seconds(30), &transport_);
  }
  int64_t TrainIter(const ChildProgram& program) {
    const absl::StatusOr<RunStatus> status = Ask(CoordinatorAddress(program));
    return status.ok() ? status->train_iter() : -1;
  }
  bool LearnsOn(const ChildProgram& program) {
    const int64_t now = TrainIter(program);
    return Eventually([&] { return TrainIter(program) > now + 100 || !program.IsRunning(); },
                      kPatience) &&
           program.IsRunning();
  }
  // The pids of the group's learners, from the coordinator's status.
  std::vector<pid_t> LearnerPids(const ChildProgram& program) {
    const absl::StatusOr<RunStatus> status = Ask(CoordinatorAddress(program));
    std::vector<pid_t> pids;
    if (!status.ok()) return pids;
    for (const WorkerStatus& worker : status->worker()) {
      for (const WorkerStatus& member : worker.member()) {
        pids.push_back(static_cast<pid_t>(member.pid()));
      }
    }
    return pids;
  }
  // Waits until there are two learners and none of them is `gone`.
  bool HasSuccessorOf(pid_t gone, const ChildProgram& program) {
    return Eventually(
        [&] {
          const std::vector<pid_t> pids = LearnerPids(program);
          return pids.size() == 2 && std::count(pids.begin(), pids.end(), gone) == 0;
        },
        kPatience);
  }
  pid_t AggregatorPid(const ChildProgram& program) {
    const absl::StatusOr<RunStatus> status = Ask(CoordinatorAddress(program));
    if (!status.ok()) return 0;
    for (const WorkerStatus& worker : status->worker()) {
      if (worker.name() == "aggregator-0") return static_cast<pid_t>(worker.pid());
    }
    return 0;
  }
  void ExpectConverges(ChildProgram* program) {
    EXPECT_EQ(program->Wait(kPatience), 0) << program->err() << Log("aggregator-0");
    EXPECT_THAT(program->out(), HasSubstr("\"stop\":true"));
  }

  std::string folder_;
  std::string run_;
  GrpcTransport transport_;
};

TEST_F(AggregatedTest, TwoLearnersConvergeAsOne) {
  const auto program = Start({});
  ExpectConverges(program.get());
  EXPECT_EQ(Said("generation 1 of 2 learners: learner-0, learner-1") +
                Said("generation 1 of 2 learners: learner-1, learner-0"),
            1)
      << Log("aggregator-0");
  EXPECT_THAT(Log("learner-0") + Log("learner-1"), HasSubstr("rank 1 of 2 learners"));
}

TEST_F(AggregatedTest, AProgramWithoutTheAllReduceIsRefused) {
  const auto program = Start({"--set=policy.learn.all_reduce=gloo"});
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("unknown all-reduce type 'gloo'; this program has: tcp"),
                    HasSubstr("//worker:parallel_torch has 'gloo'")));
}

TEST_F(AggregatedTest, OneOfTwoLearnersIsKilledAndTheOtherGoesOn) {
  const auto program = StartLong();
  ASSERT_TRUE(WaitUntilSaid("generation 1 of 2 learners")) << program->err();
  ASSERT_TRUE(LearnsOn(*program)) << program->err();
  ASSERT_TRUE(Eventually([&] { return LearnerPids(*program).size() == 2; }, kPatience));
  const std::vector<pid_t> pids = LearnerPids(*program);
  EXPECT_NE(pids[0], pids[1]);
  kill(pids[0], SIGKILL);
  EXPECT_TRUE(HasSuccessorOf(pids[0], *program)) << Log("aggregator-0") << program->err();
  ASSERT_TRUE(WaitUntilSaid("generation 2 of")) << Log("aggregator-0") << program->err();
  ASSERT_TRUE(LearnsOn(*program)) << program->err();
  // The successor is taken into the group.
  EXPECT_TRUE(WaitUntilSaid("of 2 learners", 2)) << Log("aggregator-0") << program->err();
  ExpectConverges(program.get());
  EXPECT_THAT(Log("coordinator"), testing::Not(HasSubstr(" failed")));
}

// The round is lost, and the one that is left publishes, and learns from the next one.
TEST_F(AggregatedTest, OneOfTwoLearnersOfAnOnPolicyPolicyIsKilledAndTheOtherGoesOn) {
  const auto program = Start(
      {"--set=max_env_step=0", "--set=policy.other.commander.stop_after_seconds=25"}, kPpoConfig);
  ASSERT_TRUE(WaitUntilSaid("generation 1 of 2 learners")) << program->err();
  for (int generation = 2; generation < 4; ++generation) {  // Each rank is killed once.
    ASSERT_TRUE(LearnsOn(*program)) << program->err();
    ASSERT_TRUE(Eventually([&] { return LearnerPids(*program).size() == 2; }, kPatience));
    const pid_t killed = LearnerPids(*program)[static_cast<size_t>(generation % 2)];
    kill(killed, SIGKILL);
    EXPECT_TRUE(HasSuccessorOf(killed, *program)) << Log("aggregator-0") << program->err();
    ASSERT_TRUE(WaitUntilSaid("of 2 learners", generation)) << Log("aggregator-0");
    ASSERT_TRUE(LearnsOn(*program)) << Log("aggregator-0") << program->err();
  }
  ExpectConverges(program.get());
  EXPECT_THAT(Log("coordinator"), testing::Not(HasSubstr(" failed")));
}

TEST_F(AggregatedTest, ALearnerThatIsStoppedIsReplacedAndEndsWhenItWakes) {
  const auto program = Start({"--set=policy.other.commander.stop_after_seconds=40",
                              "--set=system.coordinator.lease_seconds=10",
                              "--set=policy.learn.all_reduce_timeout=5"});
  ASSERT_TRUE(WaitUntilSaid("generation 1 of 2 learners")) << program->err();
  ASSERT_TRUE(Eventually([&] { return LearnerPids(*program).size() == 2; }, kPatience));
  const pid_t stopped = LearnerPids(*program)[1];
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  EXPECT_TRUE(HasSuccessorOf(stopped, *program)) << Log("aggregator-0") << program->err();
  EXPECT_THAT(program->err(), HasSubstr(absl::StrCat("(process ", stopped, "), started ")));
  EXPECT_THAT(program->err(), HasSubstr("ago, lost its session; starting another one"));
  ASSERT_EQ(kill(stopped, SIGCONT), 0);
  EXPECT_TRUE(Eventually(
      [&] {
        return absl::StrContains(
            program->err(),
            absl::StrCat("process ", stopped, ", which was replaced, ended: exit status 1"));
      },
      kPatience))
      << program->err();
  ExpectConverges(program.get());
}

TEST_F(AggregatedTest, AllLearnersAreKilledAndOthersGoOnFromTheCheckpoint) {
  const auto program = StartLong();
  ASSERT_TRUE(WaitUntilSaid("generation 1 of 2 learners")) << program->err();
  ASSERT_TRUE(LearnsOn(*program)) << program->err();
  ASSERT_TRUE(Eventually([&] { return PathExists(JoinPath(run_, "ckpt/learner_resume")); }));
  ASSERT_TRUE(Eventually([&] { return LearnerPids(*program).size() == 2; }, kPatience));
  for (const pid_t pid : LearnerPids(*program)) kill(pid, SIGKILL);
  EXPECT_TRUE(WaitUntilSaid("generation 1 of 2 learners", 2))
      << Log("aggregator-0") << program->err();
  ExpectConverges(program.get());
  EXPECT_THAT(Log("learner-0") + Log("learner-1"), HasSubstr("loaded checkpoint "));
}

TEST_F(AggregatedTest, TheAggregatorIsKilledAndAnotherOneTakesItsPlace) {
  const auto program = StartLong();
  ASSERT_TRUE(WaitUntilSaid("generation 1 of 2 learners")) << program->err();
  ASSERT_TRUE(LearnsOn(*program)) << program->err();
  kill(AggregatorPid(*program), SIGKILL);
  EXPECT_TRUE(WaitUntilSaid("generation 1 of 2 learners", 2))
      << Log("aggregator-0") << program->err();
  ExpectConverges(program.get());
  // The learners of the first aggregator end by themselves, maybe after the run.
  EXPECT_THAT(ReapOrphans(absl::Minutes(1)), AllOf(SizeIs(2), Each(Field(&Orphan::code, 1))));
  EXPECT_THAT(program->err(), HasSubstr("has lost the coordinator: "));
}

}  // namespace
}  // namespace ding
