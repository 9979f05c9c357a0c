// Tests parallel runs that are resumed after all of their processes have ended.

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/parallel_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// The parameter says whether each program gets the run's folder as a relative path, from a current
// folder of its own.
class ResumeTest : public ParallelTest, public testing::WithParamInterface<bool> {
 protected:
  ResumeTest() {
    if (!GetParam()) return;
    program_ = std::filesystem::absolute(kProgram).string();
    EXPECT_THAT(CreateDirectories(Path("elsewhere")), IsOk());
  }

  std::unique_ptr<ChildProgram> StartIn(absl::string_view folder, absl::string_view name,
                                        absl::string_view exp_dir,
                                        std::vector<std::string> args) const {
    args.push_back(absl::StrCat("--exp_dir=", GetParam() ? exp_dir : RunPath("a")));
    if (!GetParam()) return Start(name, args);
    const std::string to = Path(folder);
    return Start(name, args, [to] { (void)!chdir(to.c_str()); });
  }
};

TEST_P(ResumeTest, ContinuesAfterAnInterruptAndAfterAllProcessesDie) {
  const std::string config = std::filesystem::absolute(kSoakConfig).string();
  const std::string run(Basename(RunPath("a")));
  auto program = StartIn("", "run", run, {absl::StrCat("--config=", config), kForever});
  RunStatus before = WaitForStatus(*program, IsTraining);
  const auto alive = StartIn("elsewhere", "alive", absl::StrCat("../", run),
                             {absl::StrCat("--config=", config), kForever, "--resume"});
  EXPECT_EQ(alive->Wait(kPatience), 1);
  EXPECT_THAT(alive->err(), HasSubstr("is in use"));
  ExpectGoesOn(*program);
  Interrupt(program.get());
  EXPECT_THAT(MemoryOfRuns(), IsEmpty());

  const auto goes_on = [&](absl::string_view name) {
    program = StartIn("elsewhere", name, absl::StrCat("../elsewhere/../", run, "/"), {"--resume"});
    const RunStatus after = WaitForStatus(*program, [](const RunStatus& status) {
      return IsTraining(status) && status.buffer_size() == 1;
    });
    EXPECT_GE(after.envstep(), before.envstep());
    EXPECT_GT(after.incarnation(), before.incarnation());
    EXPECT_EQ(after.run(), before.run());
    EXPECT_EQ(after.buffer(0).lost_count(), 0);
    EXPECT_GE(after.buffer(0).push_count(), before.buffer(0).push_count());
    EXPECT_THAT(Log("a", "coordinator"), Not(HasSubstr("goes on with 0 of ")));
    EXPECT_TRUE(
        Eventually([&] { return absl::StrContains(Log("a", "learner-0"), "loaded checkpoint "); }));
    ExpectGoesOn(*program);
    before = after;
  };
  goes_on("again");
  // The run can also be resumed after nothing could save its data.
  const RunStatus last = WaitForStatus(*program, IsTraining);
  const auto hold = HoldMemory();
  kill(program->pid(), SIGSTOP);
  for (const WorkerStatus& worker : last.worker()) kill(static_cast<pid_t>(worker.pid()), SIGKILL);
  kill(static_cast<pid_t>(last.coordinator_pid()), SIGKILL);
  kill(program->pid(), SIGKILL);
  EXPECT_EQ(program->Wait(kPatience), -SIGKILL);
  ReapOrphans(absl::Minutes(1));
  goes_on("and_again");
  Interrupt(program.get());
}

INSTANTIATE_TEST_SUITE_P(Folders, ResumeTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Relative" : "Absolute"; });

TEST_F(ParallelTest, Replay_RecordedRunWithKilledLearner_GivesTheSameBytes) {
  auto program =
      Start("run", Args(kSoakConfig, "a", {kForever, "--record", "--set=resume.period_seconds=1"}));
  const int64_t pid = PidOf(WaitForStatus(*program, IsTraining), "learner-0");
  ExpectGoesOn(*program);
  kill(static_cast<pid_t>(pid), SIGKILL);
  WaitForStatus(*program, [pid](const RunStatus& status) {
    const int64_t now = PidOf(status, "learner-0");
    return now != 0 && now != pid && IsTraining(status);
  });
  // What its successor has learned from is recorded in any case: it ends in order.
  const int64_t known = WaitForStatus(*program, IsTraining).train_iter();
  WaitForStatus(*program,
                [known](const RunStatus& status) { return status.train_iter() > known + 20; });
  Interrupt(program.get());
  program_ = "worker/replay";
  const std::string run = absl::StrCat("--run=", RunPath("a"));
  const auto replay = Run("replay", {run, absl::StrCat("--out=", Path("replayed"))});
  EXPECT_EQ(replay->Wait(kPatience), 0) << replay->err();
  EXPECT_THAT(replay->out(),
              AllOf(HasSubstr("learner_1: iterations 0 to "), HasSubstr("learner_2: iterations ")));
  const auto rows = Run("rows", {run, absl::StrCat("--show_iter=", known + 1)});
  EXPECT_EQ(rows->Wait(kPatience), 0) << rows->err();
  EXPECT_THAT(rows->out(), HasSubstr(" collector-"));
  EXPECT_EQ(Run("again", {run, absl::StrCat("--out=", Path("replayed"))})->Wait(kPatience), 2);
}

TEST_F(ParallelTest, ARunThatHasConvergedSaysSoWhenItIsResumed) {
  const auto program = Run("run", Args(kConfig, "a", {"--seed=0"}));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  const std::string exp_dir = absl::StrCat("--exp_dir=", RunPath("a"));
  const auto again = Run("again", {exp_dir, "--resume"});
  EXPECT_EQ(again->Wait(kPatience), 0) << again->err();
  EXPECT_EQ(again->out(), program->out());
  EXPECT_THAT(again->err(), AllOf(HasSubstr("had converged and has deleted its rows"),
                                  Not(HasSubstr("are gone from the store"))));
  const auto further =
      Run("further", Args(kConfig, "a", {"--seed=0", "--resume", "--set=env.stop_value=199"}));
  EXPECT_EQ(further->Wait(kPatience), 1);
  EXPECT_THAT(further->err(), AllOf(HasSubstr("had converged, at env.stop_value 195"),
                                    HasSubstr("load_ckpt_before_run=")));
  EXPECT_TRUE(PathExists(JoinPath(RunPath("a"), "result.json")));
}

// The rows of this run are in the memory of this machine.
TEST_F(ParallelTest, DataForAResumeStayWhenTheCoordinatorKeepsDying) {
  const auto kill_coordinators = [](const ChildProgram& program) {
    pid_t killed = 0;
    Eventually(
        [&] {
          const pid_t pid = CoordinatorOf(program);
          if (pid != 0 && pid != killed) kill(killed = pid, SIGKILL);
          return !program.IsRunning();
        },
        kPatience);
  };
  auto program = Start("new", Args(kSoakConfig, "new", {kForever}));
  kill_coordinators(*program);
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(), AllOf(HasSubstr("5 times in a row soon after its start"),
                                    Not(HasSubstr("the data of this run stay in"))));
  EXPECT_THAT(MemoryOfRuns(), IsEmpty());

  program = Start("run", Args(kSoakConfig, "a", {kForever}));
  const RunStatus last = WaitForStatus(*program, IsTraining);
  auto hold = HoldMemory();
  kill(program->pid(), SIGSTOP);
  for (const WorkerStatus& worker : last.worker()) kill(static_cast<pid_t>(worker.pid()), SIGKILL);
  kill(static_cast<pid_t>(last.coordinator_pid()), SIGKILL);
  kill(program->pid(), SIGKILL);
  EXPECT_EQ(program->Wait(kPatience), -SIGKILL);
  ReapOrphans(absl::Minutes(1));
  program = Start("dies", Args(kSoakConfig, "a", {kForever, "--resume"}));
  kill_coordinators(*program);
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("the data of this run stay in /dev/shm/ding_worker-"),
                    HasSubstr(absl::StrCat("parallel --resume --exp_dir=", RunPath("a")))));
  hold.reset();
  // Another run, which removes what dead runs have left, keeps it.
  const auto other = Run("other", Args(kConfig, "b", {"--max_train_iter=20"}));
  EXPECT_EQ(other->Wait(kPatience), 0) << other->err();
  ASSERT_THAT(MemoryOfRuns(), SizeIs(1));
  program = Start("goes_on", Args(kSoakConfig, "a", {kForever, "--resume"}));
  const RunStatus after = WaitForStatus(*program, IsTraining);
  EXPECT_GE(after.envstep(), last.envstep());
  EXPECT_EQ(after.buffer(0).lost_count(), 0);
  Interrupt(program.get());
}

// A machine that goes down takes with it what the kernel had not written to the disk.
TEST_F(ParallelTest, Resume_TheJournalLacksItsEnd_GoesOnFromTheCheckpoint) {
  const std::string journal = JoinPath(RunPath("a"), "coordinator/journal");
  const std::string checkpoint = JoinPath(RunPath("a"), "ckpt/learner_resume");
  const auto saved_iteration = [&checkpoint] {
    int64_t iteration = -1;
    const absl::StatusOr<CheckpointInfo> info = CheckpointReader::ReadInfo(checkpoint);
    const bool saved = info.ok() && absl::SimpleAtoi(info->fields.at("train_iter"), &iteration);
    return saved ? iteration : -1;
  };
  auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  WaitForAddress(*program);
  DING_ASSERT_OK_AND_ASSIGN(const std::string first, ReadFile(journal));
  DING_ASSERT_OK_AND_ASSIGN(const std::string first_wal, ReadFile(journal + "-wal"));
  WaitForStatus(*program, IsTraining);
  EXPECT_TRUE(Eventually([&] { return saved_iteration() > 0; }));
  Interrupt(program.get());
  const int64_t saved = saved_iteration();
  ASSERT_THAT(RemoveFile(journal), IsOk());
  const auto refused = Run("refused", Args(kSoakConfig, "a", {kForever, "--resume"}));
  EXPECT_EQ(refused->Wait(kPatience), 1);
  EXPECT_THAT(refused->err(), AllOf(HasSubstr("is empty, but the run has the checkpoint"),
                                    HasSubstr(checkpoint), HasSubstr("load_ckpt_before_run=")));
  EXPECT_EQ(saved_iteration(), saved);

  ASSERT_THAT(WriteFileAtomically(journal, first), IsOk());
  ASSERT_THAT(WriteFileAtomically(journal + "-wal", first_wal), IsOk());
  program = Start("goes_on", Args(kSoakConfig, "a", {kForever, "--resume"}));
  const RunStatus after = WaitForStatus(*program, IsTraining);
  EXPECT_GE(after.train_iter(), saved);
  EXPECT_THAT(program->err(),
              HasSubstr(absl::StrCat("is of iteration ", saved, ": the learner goes on from")));
  EXPECT_TRUE(Eventually([&] { return saved_iteration() > saved; })) << "it is saved again";
  Interrupt(program.get());
}

// The coordinator and the workers of run "a" were started one by one, so nobody else watches them.
TEST_F(ParallelTest, AnotherRunBegins_RowsStayWhileWorkersOfTheirRunLive) {
  const std::vector<std::string> args = {"--role=coordinator", kForever,
                                         "--set=system.coordinator.rejoin_seconds=120"};
  auto coordinator = Start("run", Args(kSoakConfig, "a", args));
  const std::string address = WaitForAddress(*coordinator);
  std::vector<std::unique_ptr<ChildProgram>> workers;
  for (const char* name : {"learner-0", "collector-0", "collector-1"}) {
    workers.push_back(Start(
        name, {absl::StrCat("--role=", std::string(name).substr(0, std::string(name).find('-'))),
               absl::StrCat("--name=", name), absl::StrCat("--coordinator=", address)}));
  }
  WaitForStatus(*coordinator, IsTraining);
  kill(coordinator->pid(), SIGKILL);
  EXPECT_EQ(coordinator->Wait(kPatience), -SIGKILL);
  const auto other = Run("other", Args(kConfig, "b", {"--max_train_iter=20"}));
  EXPECT_EQ(other->Wait(kPatience), 0) << other->err();

  std::vector<std::string> again = args;
  again.push_back("--resume");
  again.push_back(absl::StrCat("--listen=", address));
  coordinator = Start("again", Args(kSoakConfig, "a", again));
  const RunStatus after = WaitForStatus(*coordinator, IsTraining);
  EXPECT_EQ(after.buffer(0).lost_count(), 0);
  Interrupt(coordinator.get());
  for (const auto& worker : workers) EXPECT_EQ(worker->Wait(kPatience), 0) << worker->err();
}

TEST_F(ParallelTest, AnImpossibleResumeIsRefusedAndChangesNothing) {
  const auto fails = [this](const std::vector<std::string>& args,
                            const testing::Matcher<std::string>& why) {
    const auto program = Run("fails", args);
    EXPECT_EQ(program->Wait(kPatience), 1);
    EXPECT_THAT(program->err(), why);
  };
  fails({"--resume", absl::StrCat("--config=", kConfig)}, HasSubstr("--resume needs --exp_dir"));
  fails({"--resume", absl::StrCat("--exp_dir=", RunPath("none"))},
        HasSubstr("there is no parallel run to go on with in"));
  const auto program = Run("run", Args(kSoakConfig, "a", {"--max_train_iter=50"}));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  fails(Args(kSoakConfig, "a", {"--resume", "--set=policy.learn.batch_size=7"}),
        AllOf(HasSubstr("the config is not that of the run to resume"), HasSubstr("batch_size")));
  const std::string journal = JoinPath(RunPath("a"), "coordinator/journal");
  DING_ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(journal));
  std::string damaged = whole;
  damaged[4096] = static_cast<char>(damaged[4096] ^ 1);
  ASSERT_THAT(WriteFileAtomically(journal, damaged), IsOk());
  fails(Args(kSoakConfig, "a", {"--resume", "--max_train_iter=80"}), HasSubstr("is damaged"));
  // None of the refused attempts has changed the run.
  ASSERT_THAT(WriteFileAtomically(journal, whole), IsOk());
  const auto longer = Run("longer", Args(kSoakConfig, "a", {"--resume", "--max_train_iter=80"}));
  EXPECT_EQ(longer->Wait(kPatience), 0) << longer->err();
  EXPECT_THAT(longer->out(), HasSubstr("\"train_iter\":"));
}

}  // namespace
}  // namespace ding
