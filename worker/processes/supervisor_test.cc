#include "ding_worker/worker/processes/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/worker/testing/child_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ExitedWithCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kSleep[] = "exec sleep 1000";

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/supervisor_XXXXXX");
    folder_ = mkdtemp(folder.data());
    options_.program = "/bin/sh";
    options_.clock = &clock_;
  }
  ~SupervisorTest() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process was left";
    EXPECT_EQ(errno, ECHILD);
    EXPECT_THAT(RemoveRecursively(folder_), IsOk());
  }

  static Supervisor::Worker Worker(const std::string& name, const std::string& script) {
    Supervisor::Worker worker;
    worker.name = name;
    worker.arguments = {"-c", script};
    return worker;
  }
  std::string Path(absl::string_view name) const { return JoinPath(folder_, name); }
  bool Exists(absl::string_view name) const { return PathExists(Path(name)); }
  static bool IsAlive(pid_t pid) { return kill(pid, 0) == 0; }
  // Calls Restart() until it returns an error, or until there were `restarts` restarts. Returns its
  // last status.
  static absl::Status RestartUntil(Supervisor* supervisor, int64_t restarts) {
    absl::Status status;
    EXPECT_TRUE(Eventually([&] {
      status = supervisor->Restart();
      return !status.ok() || supervisor->restarts() >= restarts;
    }));
    return status;
  }

  std::string folder_;
  SimulatedClock clock_;
  Supervisor::Options options_;
};

TEST_F(SupervisorTest, Start_Stdin_IsEmpty) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);  // Nobody writes: a process that reads it would wait for ever.
  Supervisor supervisor(options_);
  ASSERT_THAT(supervisor.Start(Worker(
                  "a", absl::StrCat("read line; touch ", Path("has_read"), "; exec sleep 1000"))),
              IsOk());
  EXPECT_TRUE(Eventually([&] { return Exists("has_read"); }));
  supervisor.Stop(absl::ZeroDuration());
  dup2(before, STDIN_FILENO);
  for (const int file : {before, ends[0], ends[1]}) close(file);
}

TEST_F(SupervisorTest, StartsAnotherProcessInThePlaceOfOneThatEnds) {
  Supervisor supervisor(options_);
  ASSERT_THAT(supervisor.Start(Worker("a", kSleep)), IsOk());
  ASSERT_THAT(supervisor.Start(Worker("b", kSleep)), IsOk());
  const std::vector<pid_t> before = supervisor.pids();
  ASSERT_THAT(before, SizeIs(2));
  EXPECT_THAT(supervisor.Restart(), IsOk());
  EXPECT_EQ(supervisor.pids(), before);
  kill(before[0], SIGKILL);
  EXPECT_THAT(RestartUntil(&supervisor, 1), IsOk());
  const std::vector<pid_t> after = supervisor.pids();
  EXPECT_NE(after[0], before[0]);
  EXPECT_EQ(after[1], before[1]);
  EXPECT_TRUE(IsAlive(after[0]));
  EXPECT_FALSE(supervisor.SomebodyHasEnded());
  kill(after[1], SIGKILL);
  EXPECT_TRUE(Eventually([&] { return supervisor.SomebodyHasEnded(); }));
  supervisor.Stop(absl::ZeroDuration());
  EXPECT_FALSE(IsAlive(after[0]));
  EXPECT_FALSE(IsAlive(after[1]));
  EXPECT_FALSE(supervisor.SomebodyHasEnded());
  EXPECT_THAT(supervisor.pids(), IsEmpty());
}

TEST_F(SupervisorTest, GivesUpAWorkerThatKeepsEndingSoon) {
  options_.max_failures = 3;
  Supervisor supervisor(options_);
  ASSERT_THAT(supervisor.Start(Worker("crashes", "exit 7")), IsOk());
  EXPECT_THAT(RestartUntil(&supervisor, 100),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("crashes (process "), HasSubstr("exit status 7"),
                             HasSubstr("3 times in a row"))));
  EXPECT_EQ(supervisor.restarts(), 2);
  EXPECT_THAT(supervisor.pids(), ElementsAre(0));
  EXPECT_THAT(supervisor.Restart(), IsOk()) << "there is nothing left to restart";
}

TEST_F(SupervisorTest, AWorkerThatLivedForAWhileIsNotAFailure) {
  options_.max_failures = 2;
  Supervisor supervisor(options_);
  ASSERT_THAT(supervisor.Start(Worker("a", kSleep)), IsOk());
  for (int i = 1; i <= 5; ++i) {
    clock_.Advance(absl::Seconds(3));
    kill(supervisor.pids()[0], SIGKILL);
    ASSERT_THAT(RestartUntil(&supervisor, i), IsOk());
  }
  kill(supervisor.pids()[0], SIGKILL);
  ASSERT_THAT(RestartUntil(&supervisor, 6), IsOk());
  kill(supervisor.pids()[0], SIGKILL);
  EXPECT_THAT(RestartUntil(&supervisor, 7),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("signal 9 (Killed)")));
}

// A session may break before its process can be reaped.
TEST_F(SupervisorTest, ProcessesThatLoseTheirSessionSoonAreFailuresToo) {
  options_.max_failures = 2;
  Supervisor supervisor(options_);
  ASSERT_THAT(supervisor.Start(Worker("a", kSleep)), IsOk());
  EXPECT_THAT(supervisor.Replace(supervisor.pids()[0]), IsOk());
  EXPECT_THAT(supervisor.Replace(supervisor.pids()[0]),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("2 times in a row")));
}

TEST_F(SupervisorTest, AProcessThatIsReplacedLivesUntilItEndsOrAllAreStopped) {
  Supervisor supervisor(options_);
  ASSERT_THAT(supervisor.Start(Worker("a", kSleep)), IsOk());
  const pid_t first = supervisor.pids()[0];
  kill(first, SIGSTOP);
  EXPECT_THAT(supervisor.Replace(first), IsOk());
  const pid_t second = supervisor.pids()[0];
  EXPECT_NE(second, first);
  EXPECT_TRUE(IsAlive(first));
  EXPECT_THAT(supervisor.Replace(first), IsOk()) << "it was before";
  EXPECT_THAT(supervisor.Replace(getpid()), IsOk()) << "not ours";
  EXPECT_THAT(supervisor.Replace(0), IsOk());
  EXPECT_EQ(supervisor.restarts(), 1);
  kill(first, SIGTERM);
  kill(first, SIGCONT);
  EXPECT_TRUE(Eventually([&] { return supervisor.Restart().ok() && !IsAlive(first); }));
  kill(second, SIGSTOP);
  EXPECT_THAT(supervisor.Replace(second), IsOk());
  supervisor.Stop(absl::ZeroDuration());
  EXPECT_FALSE(IsAlive(second));
}

TEST_F(SupervisorTest, StopWaitsForProcessesThatAreEnding) {
  options_.clock = Clock::Real();
  Supervisor supervisor(options_);
  const std::string script =
      absl::StrCat("while [ ! -e ", Path("go"), " ]; do sleep 0.01; done; : > ", Path("ended"));
  ASSERT_THAT(supervisor.Start(Worker("a", script)), IsOk());
  ASSERT_THAT(WriteFileAtomically(Path("go"), ""), IsOk());
  supervisor.Stop(absl::Minutes(2));
  EXPECT_TRUE(Exists("ended"));
}

TEST_F(SupervisorTest, WorkersDoNotGetTheSignalsOfTheTerminal) {
  Supervisor supervisor(options_);
  ASSERT_THAT(supervisor.Start(Worker("a", kSleep)), IsOk());
  EXPECT_NE(getpgid(supervisor.pids()[0]), getpgid(0));
}

TEST_F(SupervisorTest, AMissingProgramIsAnError) {
  options_.program = Path("nothing");
  Supervisor supervisor(options_);
  EXPECT_THAT(supervisor.Start(Worker("a", kSleep)),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("a"), HasSubstr("nothing"))));
  EXPECT_THAT(supervisor.pids(), IsEmpty());
}

// The program may be gone because it is being rebuilt; what is left of the worker is not touched.
TEST_F(SupervisorTest, AProgramRemovedLaterIsAnError) {
  ASSERT_EQ(symlink("/bin/sh", Path("program").c_str()), 0);
  options_.program = Path("program");
  Supervisor supervisor(options_);
  ASSERT_THAT(supervisor.Start(Worker("a", kSleep)), IsOk());
  ASSERT_THAT(RemoveFile(Path("program")), IsOk());
  kill(supervisor.pids()[0], SIGKILL);
  EXPECT_THAT(RestartUntil(&supervisor, 2), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(supervisor.pids(), ElementsAre(0));
}

TEST(DescribeWaitStatusTest, NamesTheExitStatusOrSignal) {
  EXPECT_EQ(DescribeWaitStatus(3 << 8), "exit status 3");
  EXPECT_EQ(DescribeWaitStatus(SIGSEGV), "signal 11 (Segmentation fault)");
}

// For example, an env calls _exit(0).
TEST_F(SupervisorTest, ExitZeroWithoutAGoodbyeIsAFailure) {
  options_.max_failures = 2;
  Supervisor supervisor(options_);
  Supervisor::Worker worker = Worker("a", "exit 0");
  worker.done = Supervisor::Worker::Done::kWithGoodbye;
  ASSERT_THAT(supervisor.Start(worker), IsOk());
  EXPECT_THAT(
      RestartUntil(&supervisor, 100),
      StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("exit status 0, but it was not done"),
                                                  HasSubstr("2 times in a row"))));
}

TEST_F(SupervisorTest, ADoneWorkerIsNotReplaced) {
  Supervisor supervisor(options_);
  Supervisor::Worker goodbye = Worker("goodbye", absl::StrCat("exit ", kGoodbyeStatus));
  goodbye.done = Supervisor::Worker::Done::kWithGoodbye;
  Supervisor::Worker any = Worker("any", "exit 3");
  any.done = Supervisor::Worker::Done::kWithAnyStatus;
  ASSERT_THAT(supervisor.Start(goodbye), IsOk());
  ASSERT_THAT(supervisor.Start(any), IsOk());
  EXPECT_TRUE(Eventually([&] {
    EXPECT_THAT(supervisor.Restart(), IsOk());
    return supervisor.names().empty();
  }));
  EXPECT_EQ(supervisor.DoneWith("goodbye"), kGoodbyeStatus);
  EXPECT_EQ(supervisor.DoneWith("any"), 3);
  EXPECT_FALSE(supervisor.Has("any"));
  EXPECT_EQ(supervisor.restarts(), 0);
}

TEST_F(SupervisorTest, ASuccessorMayHaveOtherArguments) {
  Supervisor supervisor(options_);
  Supervisor::Worker worker = Worker("a", kSleep);
  worker.done = Supervisor::Worker::Done::kWithAnyStatus;
  worker.arguments_again = {"-c", absl::StrCat("touch ", Path("again"), "; exec sleep 1000")};
  ASSERT_THAT(supervisor.Start(worker), IsOk());
  EXPECT_FALSE(Exists("again"));
  kill(*supervisor.PidOf("a"), SIGKILL);
  EXPECT_THAT(RestartUntil(&supervisor, 1), IsOk());
  EXPECT_TRUE(Eventually([&] { return Exists("again"); }));
  EXPECT_FALSE(supervisor.DoneWith("a").has_value()) << "a signal is no exit status";
  EXPECT_THAT(supervisor.names(), ElementsAre("a"));
}

constexpr int kLivedOn = 7;

// Whether the supervisor lives, and whether the process works for a session that is over or not.
struct Situation {
  bool supervisor_lives = false;
  bool has_session = false;
  bool session_is_over = false;
};

// Lives in the situation for a second and then ends with kLivedOn.
void LiveIn(Situation situation) {
  OrphanWatch watch;
  OrphanWatch::Options options;
  options.supervisor_lives = [&situation] { return situation.supervisor_lives; };
  options.patience = absl::Milliseconds(100);
  ASSERT_THAT(watch.Start(options), IsOk());
  if (situation.has_session) watch.SetSession([&situation] { return !situation.session_is_over; });
  absl::SleepFor(absl::Seconds(1));
  _exit(kLivedOn);
}

class OrphanWatchDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(OrphanWatchDeathTest, AWorkerThatWaitsToJoinEndsWithItsSupervisor) {
  EXPECT_EXIT(LiveIn({}), ExitedWithCode(1), "is gone and it has not ended within 100ms");
}

TEST_F(OrphanWatchDeathTest, AWorkerWhoseSessionIsOverEndsWithItsSupervisor) {
  Situation situation;
  situation.has_session = true;
  situation.session_is_over = true;
  EXPECT_EXIT(LiveIn(situation), ExitedWithCode(1), "it is ended now");
}

TEST_F(OrphanWatchDeathTest, AWorkerWithASessionWorksOnWithoutItsSupervisor) {
  Situation situation;
  situation.has_session = true;
  EXPECT_EXIT(LiveIn(situation), ExitedWithCode(kLivedOn), "");
}

TEST_F(OrphanWatchDeathTest, ASupervisedWorkerIsLeftAlone) {
  Situation situation;
  situation.supervisor_lives = true;
  EXPECT_EXIT(LiveIn(situation), ExitedWithCode(kLivedOn), "");
}

}  // namespace
}  // namespace ding
