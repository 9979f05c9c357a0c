// Tests parallel runs whose processes are killed and stopped, one by one and at random.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/parallel_fixture.h"
#include "ding_worker/worker/testing/soak.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(ParallelTest, GoesOnWhenItsCoordinatorIsKilled) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  for (int incarnation = 1; incarnation <= 3; ++incarnation) {
    const RunStatus before = WaitForStatus(*program, [&](const RunStatus& status) {
      return IsTraining(status) && status.incarnation() == incarnation;
    });
    kill(static_cast<pid_t>(before.coordinator_pid()), SIGKILL);
    const RunStatus after = WaitForStatus(*program, [&](const RunStatus& status) {
      return status.incarnation() > incarnation && IsTraining(status);
    });
    EXPECT_GE(after.envstep(), before.envstep());
    EXPECT_GE(after.policy_version(), before.policy_version());
    EXPECT_EQ(PidOf(after, "learner-0"), PidOf(before, "learner-0")) << "the same process";
    EXPECT_EQ(PidOf(after, "collector-1"), PidOf(before, "collector-1"));
    ExpectGoesOn(*program);
  }
  Interrupt(program.get());
  EXPECT_THAT(Log("a", "coordinator"), HasSubstr(" evicted, 0 lost"));
  EXPECT_THAT(Events("a"), AllOf(HasSubstr("\"event\":\"start\",\"name\":\"new\""),
                                 HasSubstr("\"event\":\"start\",\"name\":\"resumed\""),
                                 HasSubstr("\"event\":\"end\",\"name\":\"interrupted\"")));
}

// Where the journal is, and when it is flushed.
struct JournalSetting {
  const char* name;
  const char* sync;
  bool in_store;  // which is a folder
};

class JournalSettingTest : public ParallelTest,
                           public testing::WithParamInterface<JournalSetting> {};
INSTANTIATE_TEST_SUITE_P(Settings, JournalSettingTest,
                         testing::Values(JournalSetting{"NoneInStore", "NONE", true},
                                         JournalSetting{"PeriodicInStore", "PERIODIC", true},
                                         JournalSetting{"EveryInFolder", "EVERY", false}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(JournalSettingTest, CoordinatorAndThenAllAreKilled_NothingAcknowledgedIsLost) {
  std::vector<std::string> settings = {
      kForever, kLongLease,
      absl::StrCat("--set=system.coordinator.journal_sync=", GetParam().sync)};
  ASSERT_THAT(CreateDirectories(Path("store")), IsOk());
  settings.push_back(absl::StrCat("--set=system.store_url=file:", Path("store")));
  if (GetParam().in_store) {
    settings.push_back("--set=system.coordinator.journal=JOURNAL_IN_STORE");
  }
  auto program = Start("run", Args(kSoakConfig, "a", settings));
  RunStatus before = WaitForStatus(*program, IsTraining);
  const auto expect_after = [&](RunStatus* last) {
    const RunStatus after = WaitForStatus(*program, [last](const RunStatus& status) {
      return status.incarnation() > last->incarnation() && IsTraining(status);
    });
    EXPECT_GE(after.envstep(), last->envstep());
    ASSERT_EQ(after.buffer_size(), 1);
    EXPECT_GE(after.buffer(0).push_count(), last->buffer(0).push_count());
    EXPECT_EQ(after.buffer(0).lost_count(), 0);
    *last = after;
  };
  kill(static_cast<pid_t>(before.coordinator_pid()), SIGKILL);
  expect_after(&before);
  kill(program->pid(), SIGSTOP);
  for (const WorkerStatus& worker : before.worker()) {
    kill(static_cast<pid_t>(worker.pid()), SIGKILL);
  }
  kill(static_cast<pid_t>(before.coordinator_pid()), SIGKILL);
  kill(program->pid(), SIGKILL);
  EXPECT_EQ(program->Wait(kPatience), -SIGKILL);
  ReapOrphans(absl::Minutes(1));
  EXPECT_EQ(PathExists(JoinPath(RunPath("a"), "coordinator/journal")), !GetParam().in_store);
  settings.push_back("--resume");
  program = Start("again", Args(kSoakConfig, "a", settings));
  expect_after(&before);
  ExpectGoesOn(*program);
  Interrupt(program.get());
}

// The kernel accepts connections for a stopped coordinator, but nobody answers them.
TEST_F(ParallelTest, GoesOnWhenItsCoordinatorIsStopped) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  const RunStatus before = WaitForStatus(*program, IsTraining);
  kill(static_cast<pid_t>(before.coordinator_pid()), SIGSTOP);
  const RunStatus after = WaitForStatus(*program, [](const RunStatus& status) {
    return status.incarnation() == 2 && IsTraining(status);
  });
  EXPECT_GE(after.envstep(), before.envstep());
  EXPECT_EQ(PidOf(after, "learner-0"), PidOf(before, "learner-0")) << "the same process";
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr(absl::StrCat("the coordinator (process ", before.coordinator_pid(),
                                           ") does not answer")),
                    HasSubstr("signal 9 (Killed)")));
  ExpectGoesOn(*program);
  Interrupt(program.get());
  EXPECT_THAT(Log("a", "coordinator"), HasSubstr(" evicted, 0 lost"));
}

// The coordinator is killed before it has made a run, while it makes one, or right after that.
TEST_F(ParallelTest, BeginsAlthoughItsCoordinatorIsKilledAtOnce) {
  const uint64_t seed = std::random_device{}();  // NOLINT(ding): each run tries other moments
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Rng random(seed, "kills");
  for (int run = 0; run < 8; ++run) {
    const std::string name = absl::StrCat("run-", run);
    const auto program = Start(name, Args(kSoakConfig, name, {kForever}));
    // It is killed twice: the second coordinator may find what the first one has left.
    pid_t killed = 0;
    for (int kills = 0; kills < 2; ++kills) {
      pid_t coordinator = 0;
      ASSERT_TRUE(Eventually([&] {
        coordinator = CoordinatorOf(*program);
        return coordinator != 0 && coordinator != killed;
      }));
      const auto milliseconds = static_cast<int>(random.UniformInt(100));
      absl::SleepFor(absl::Milliseconds(milliseconds));
      std::printf("run %d: killed after %d ms; it has a run: %d\n", run, milliseconds,
                  PathExists(JoinPath(RunPath(name), "coordinator/run.textproto")));
      kill(coordinator, SIGKILL);
      killed = coordinator;
    }
    WaitForStatus(*program, IsTraining);
    Interrupt(program.get());
    EXPECT_TRUE(PathExists(JoinPath(RunPath(name), "result.json")));
  }
}

// To run a minute of this by hand: bazel run //worker/testing:soak
TEST_F(ParallelTest, GoesOnWhileItsWorkersAreKilledAndThenConverges) {
  SoakOptions options;
  options.folder = RunPath("a");
  options.seed = std::random_device{}();  // NOLINT(ding): each run tries other moments
  options.relative_folder = options.seed % 2 == 1;
  options.kills = 6;
  options.seconds = 12;
  options.say = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  SCOPED_TRACE(absl::StrCat("seed ", options.seed));
  DING_ASSERT_OK_AND_ASSIGN(const SoakReport report, RunSoak(options, &transport_));
  EXPECT_THAT(report.kills, SizeIs(6));
  EXPECT_GT(report.rows_acknowledged, 0);
}

// Only the checkpoints cannot be written: their folder leads to one in which nobody may make files.
TEST_F(ParallelTest, CheckpointsCannotBeWritten_TheRunGoesOnAndSavesThemLater) {
  const auto program =
      Start("run", Args(kSoakConfig, "a",
                        {kForever, "--set=policy.learn.learner.hook.save_ckpt_seconds=0.2",
                         "--set=policy.learn.learner.hook.save_ckpt_after_iter=200"}));
  const std::string folder = JoinPath(RunPath("a"), "ckpt");
  const std::string resume = JoinPath(folder, "learner_resume");
  WaitForStatus(*program, IsTraining);
  EXPECT_TRUE(Eventually([&] { return PathExists(resume); }));
  // At once, since the learner makes the folder anew if there is none.
  const std::string away = folder + ".away";
  ASSERT_EQ(symlink("/proc/sys", away.c_str()), 0);
  ASSERT_EQ(renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, away.c_str(), RENAME_EXCHANGE), 0);
  EXPECT_TRUE(
      Eventually([&] { return absl::StrContains(Log("a", "learner-0"), "could not be written"); }));
  const int64_t begin = WaitForStatus(*program, IsTraining).train_iter();
  const RunStatus later = WaitForStatus(
      *program, [&](const RunStatus& status) { return status.train_iter() >= begin + 400; });
  ASSERT_EQ(renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, away.c_str(), RENAME_EXCHANGE), 0);
  ASSERT_THAT(RemoveFile(away), IsOk());
  const std::string missing = absl::StrCat("iteration_", later.train_iter() / 200 * 200);
  EXPECT_TRUE(Eventually([&] { return PathExists(JoinPath(folder, missing)); })) << missing;
  ExpectGoesOn(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 0);
  Interrupt(program.get());
  EXPECT_THAT(CheckpointReader::Open(resume), IsOk());
}

TEST_F(ParallelTest, LastCheckpointCannotBeWritten_ExitStatusAndResultSaySo) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  const std::string folder = JoinPath(RunPath("a"), "ckpt");
  WaitForStatus(*program, IsTraining);
  ASSERT_TRUE(Eventually([&] { return PathExists(JoinPath(folder, "learner_resume")); }));
  const std::string away = folder + ".away";
  ASSERT_EQ(symlink("/proc/sys", away.c_str()), 0);
  ASSERT_EQ(renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, away.c_str(), RENAME_EXCHANGE), 0);
  kill(program->pid(), SIGINT);
  EXPECT_EQ(program->Wait(kPatience), 3) << program->err();
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("the last checkpoint of the learner of policy_0 is not saved"),
                    HasSubstr(absl::StrCat("--resume --exp_dir=", RunPath("a")))));
  EXPECT_THAT(program->out(), HasSubstr("\"unsaved\":\"not all of the run is saved"));
  // What was saved before is there.
  ASSERT_EQ(renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, away.c_str(), RENAME_EXCHANGE), 0);
  const auto resumed = Start("resumed", Args(kSoakConfig, "a", {kForever, "--resume"}));
  WaitForStatus(*resumed, IsTraining);
  Interrupt(resumed.get());
}

TEST_F(ParallelTest, ALearnerGoesOnFromTheCheckpointOfTheOneThatWasKilled) {
  const auto program = Start(
      "run",
      Args(kSoakConfig, "a", {kForever, "--set=policy.learn.learner.hook.save_ckpt_seconds=0.01"}));
  const std::string resume = JoinPath(RunPath("a"), "ckpt/learner_resume");
  const RunStatus before = WaitForStatus(*program, [&](const RunStatus& status) {
    return IsTraining(status) && status.train_iter() > 100 && PathExists(resume);
  });
  // This looks as if the learner had been killed while it wrote.
  const std::string half_written = absl::StrCat(resume, ".tmp.1.1");
  ASSERT_THAT(CreateDirectories(half_written), IsOk());
  const int64_t pid = PidOf(before, "learner-0");
  kill(static_cast<pid_t>(pid), SIGKILL);
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(Log("a", "learner-0"), "loaded checkpoint ");
  })) << program->err();
  ExpectGoesOn(*program);
  EXPECT_FALSE(PathExists(half_written));
  Interrupt(program.get());
}

// By the time the stopped learner wakes, its successor has written policies for long, and nothing
// that the old one does then may have an effect.
TEST_F(ParallelTest, AWorkerThatIsStoppedForTooLongIsReplacedAndEndsWhenItWakes) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  const RunStatus before = WaitForStatus(*program, IsTraining);
  for (const std::string name : {"collector-0", "learner-0"}) {
    const int64_t pid = PidOf(before, name);
    ASSERT_EQ(kill(static_cast<pid_t>(pid), SIGSTOP), 0);
    const RunStatus replaced = WaitForStatus(*program, [&](const RunStatus& status) {
      return PidOf(status, name) != 0 && PidOf(status, name) != pid && IsTraining(status);
    });
    ASSERT_EQ(kill(static_cast<pid_t>(pid), SIGCONT), 0);
    EXPECT_TRUE(Eventually([&] {
      return absl::StrContains(program->err(), absl::StrCat("process ", pid,
                                                            ", which was replaced, ended: exit "
                                                            "status 1"));
    })) << program->err();
    EXPECT_THAT(program->err(), HasSubstr(absl::StrCat(name, " has lost the coordinator: ")));
    EXPECT_EQ(kill(static_cast<pid_t>(pid), 0), -1) << "it is reaped";
    // The coordinator has refused nothing that the successor sent.
    WaitForStatus(*program, [&](const RunStatus& status) {
      return PidOf(status, name) == PidOf(replaced, name) &&
             status.policy_version() > replaced.policy_version();
    });
  }
  // The collector did not receive its messages; this may have been noticed before its lease
  // expired.
  EXPECT_THAT(program->err(), HasSubstr("the length of the lease"));
  Interrupt(program.get());
  EXPECT_THAT(Events("a"), AllOf(HasSubstr("\"event\":\"fault\",\"name\":\"collector-0\""),
                                 HasSubstr("\"event\":\"fault\",\"name\":\"learner-0\"")));
}

TEST_F(ParallelTest, WorkersEndWhenTheCoordinatorAndTheSupervisorAreKilled) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  const RunStatus status = WaitForStatus(*program, IsTraining);
  // One of the workers has to notice by its lease alone.
  const pid_t stopped = static_cast<pid_t>(PidOf(status, "collector-1"));
  kill(stopped, SIGSTOP);
  kill(program->pid(), SIGSTOP);
  kill(static_cast<pid_t>(status.coordinator_pid()), SIGKILL);
  kill(program->pid(), SIGKILL);
  EXPECT_EQ(program->Wait(kPatience), -SIGKILL);
  kill(stopped, SIGCONT);
  const auto workers = ReapOrphans(absl::Minutes(1));
  EXPECT_EQ(std::count_if(workers.begin(), workers.end(),
                          [](const Orphan& orphan) { return orphan.code == 1; }),
            3);
  for (const char* name : {"learner-0", "collector-0", "collector-1"}) {
    EXPECT_THAT(program->err(), HasSubstr(absl::StrCat(name, " has lost the coordinator: ")));
  }
  // The next run cleans up; it may be a run of another test.
  const auto next = Run("next", Args(kConfig, "b", {"--max_train_iter=20"}));
  EXPECT_EQ(next->Wait(kPatience), 0) << next->err();
  EXPECT_THAT(MemoryOfRuns(), IsEmpty());
}

TEST_F(ParallelTest, TheRunEndsInOrderWhenItsSupervisorIsKilled) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  WaitForStatus(*program, IsTraining);
  kill(program->pid(), SIGKILL);
  EXPECT_EQ(program->Wait(kPatience), -SIGKILL);
  EXPECT_THAT(ReapOrphans(absl::Minutes(1)), SizeIs(4));
  EXPECT_TRUE(PathExists(JoinPath(RunPath("a"), "result.json")));
}

}  // namespace
}  // namespace ding
