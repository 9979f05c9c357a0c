// The programs of a parallel run as people start them: real processes, which are killed, stopped,
// refused and interrupted. Each test ends with no process and no folder of its run left.

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/protocol.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/session.h"
#include "ding_worker/interaction/transport.h"
#include "ding_worker/worker/ask_status.h"
#include "ding_worker/worker/run_memory.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/soak.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kProgram[] = "worker/parallel";
constexpr char kConfig[] = "worker/configs/cartpole_dqn_parallel.textproto";
constexpr char kSoakConfig[] = "worker/configs/cartpole_dqn_soak.textproto";
// A run that goes on until the test is done with it.
constexpr char kForever[] = "--set=system.max_seconds=0";
// A machine with much else to do is no reason to lose a worker.
constexpr char kLongLease[] = "--set=system.coordinator.lease_seconds=60";
constexpr char kFewPolicies[] = "--set=policy.learn.send_policy_freq=100";
// Only a broken program needs that long.
constexpr absl::Duration kPatience = absl::Minutes(2);

class ParallelTest : public testing::Test {
 protected:
  ParallelTest() {
    AdoptOrphans();
    std::string folder = absl::StrCat(testing::TempDir(), "/parallel_XXXXXX");
    folder_ = std::filesystem::canonical(mkdtemp(folder.data())).string();
  }
  ~ParallelTest() override {
    EXPECT_THAT(ReapOrphans(absl::ZeroDuration()), IsEmpty()) << "processes were left";
    EXPECT_THAT(MemoryOfRuns(), IsEmpty());
    EXPECT_THAT(RemoveRecursively(folder_), IsOk());
  }

  std::string Path(absl::string_view name) const { return JoinPath(folder_, name); }
  // Runs of this test are called like its folder.
  std::string RunPath(absl::string_view run) const {
    return Path(absl::StrCat(Basename(folder_), "-", run));
  }

  // Folders in the memory of this machine.
  std::vector<std::string> MemoryOfRuns() const {
    const absl::StatusOr<std::vector<std::string>> all =
        ListDirectory(absl::StrCat("/dev/shm/ding_worker-", geteuid()));
    std::vector<std::string> mine;
    if (!all.ok()) return mine;
    std::copy_if(
        all->begin(), all->end(), std::back_inserter(mine),
        [this](const std::string& name) { return absl::StartsWith(name, Basename(folder_)); });
    return mine;
  }

  // Keeps the memory of this test's only run while nobody lives who does: runs of other tests, which
  // begin meanwhile, would remove it.
  std::unique_ptr<RunMemoryHold> HoldMemory() const {
    const std::vector<std::string> runs = MemoryOfRuns();
    EXPECT_THAT(runs, SizeIs(1));
    return std::make_unique<RunMemoryHold>(
        absl::StrCat("/dev/shm/ding_worker-", geteuid(), "/", runs.empty() ? "" : runs[0]));
  }

  std::vector<std::string> Args(absl::string_view config, absl::string_view run,
                                const std::vector<std::string>& more) const {
    std::vector<std::string> args = {absl::StrCat("--config=", config),
                                     absl::StrCat("--exp_dir=", RunPath(run))};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::unique_ptr<ChildProgram> Start(absl::string_view name, const std::vector<std::string>& args,
                                      const std::function<void()>& before = {}) const {
    return std::make_unique<ChildProgram>(program_, args, Path(name), before);
  }
  // One that is to end by itself.
  std::unique_ptr<ChildProgram> Run(absl::string_view name,
                                    const std::vector<std::string>& args) const {
    std::unique_ptr<ChildProgram> program = Start(name, args);
    EXPECT_TRUE(program->Wait(kPatience).has_value()) << program->err();
    return program;
  }
  // The process that the program has started as its coordinator; 0: there is none. It has other
  // children: workers, and for moments those of a sanitizer.
  static pid_t CoordinatorOf(const ChildProgram& program) {
    const std::string path =
        absl::StrCat("/proc/", program.pid(), "/task/", program.pid(), "/children");
    const std::string children = ReadFile(path).value_or("");
    for (const absl::string_view child : absl::StrSplit(children, ' ', absl::SkipWhitespace())) {
      const std::string arguments =
          ReadFile(absl::StrCat("/proc/", child, "/cmdline")).value_or("");
      if (absl::StrContains(arguments, "--role=coordinator")) return std::stoi(std::string(child));
    }
    return 0;
  }
  // Ends it as a person would.
  static void Interrupt(ChildProgram* program) {
    kill(program->pid(), SIGINT);
    EXPECT_EQ(program->Wait(kPatience), 128 + SIGINT) << program->err();
  }

  std::string WaitForAddress(const ChildProgram& program) const {
    EXPECT_TRUE(Eventually(
        [&] { return !CoordinatorAddress(program).empty() || !program.IsRunning(); }, kPatience));
    EXPECT_FALSE(CoordinatorAddress(program).empty()) << program.err();
    return CoordinatorAddress(program);
  }
  absl::StatusOr<RunStatus> Ask(const std::string& address) {
    return AskStatus(address, "test", absl::Seconds(30), &transport_);
  }
  // The first status that is as wanted.
  RunStatus WaitForStatus(const ChildProgram& program,
                          const std::function<bool(const RunStatus&)>& wanted) {
    RunStatus last;
    const std::string address = WaitForAddress(program);
    const bool found = Eventually(
        [&] {
          const absl::StatusOr<RunStatus> status = Ask(address);
          if (status.ok()) last = *status;
          return !status.ok() || wanted(*status);
        },
        kPatience);
    EXPECT_TRUE(found && wanted(last)) << last.DebugString() << program.err();
    return last;
  }
  // A learner that trains and collectors that have collected.
  static bool IsTraining(const RunStatus& status) {
    return status.worker_size() == 3 && status.train_iter() > 0 && status.policy_version() > 1;
  }
  static const WorkerStatus* Find(const RunStatus& status, absl::string_view name) {
    for (const WorkerStatus& worker : status.worker()) {
      if (worker.name() == name) return &worker;
    }
    return nullptr;
  }
  static int64_t PidOf(const RunStatus& status, absl::string_view name) {
    const WorkerStatus* const worker = Find(status, name);
    return worker == nullptr ? 0 : worker->pid();
  }
  static bool SomebodyWaitsFor(const RunStatus& status, absl::string_view what) {
    return std::any_of(status.worker().begin(), status.worker().end(), [&](const auto& worker) {
      return absl::StrContains(worker.waits_for(), what);
    });
  }
  std::string Log(absl::string_view run, absl::string_view process) const {
    return ReadFile(JoinPath(RunPath(run), absl::StrCat("log/", process, "_logger.txt")))
        .value_or("");
  }

  // A run that trains goes on to train.
  void ExpectGoesOn(const ChildProgram& program) {
    const RunStatus now = WaitForStatus(program, IsTraining);
    WaitForStatus(program, [&](const RunStatus& status) {
      return status.envstep() > now.envstep() + 1000 &&
             status.policy_version() > now.policy_version();
    });
  }

  std::string folder_;
  std::string program_ = kProgram;
  GrpcTransport transport_;
};

int ConnectTo(const std::string& address) {
  const std::pair<std::string, std::string> host_port =
      absl::StrSplit(address, absl::MaxSplits(':', 1));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(host_port.second)));
  inet_pton(AF_INET, host_port.first.c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return fd;
  close(fd);
  return -1;
}

TEST_F(ParallelTest, ConvergesAndLeavesNothing) {
  const auto program = Run("run", Args(kConfig, "a", {"--seed=0"}));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  const std::string address = WaitForAddress(*program);
  DING_ASSERT_OK_AND_ASSIGN(const std::string result,
                            ReadFile(JoinPath(RunPath("a"), "result.json")));
  EXPECT_EQ(program->out(), absl::StrCat("result ", result));
  EXPECT_THAT(result, HasSubstr("\"stop\":true"));
  EXPECT_THAT(result, Not(HasSubstr("\"eval_value_raw\":[]")));
  EXPECT_EQ(ConnectTo(address), -1) << "somebody listens at " << address;
  for (const char* name : {"coordinator", "learner-0", "collector-0", "collector-1"}) {
    EXPECT_NE(Log("a", name), "") << name;
    EXPECT_TRUE(IsDirectory(JoinPath(RunPath("a"), absl::StrCat("log/", name)))) << name;
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto checkpoints, ListDirectory(JoinPath(RunPath("a"), "ckpt")));
  // A run that takes its time saves more than the last one.
  ASSERT_THAT(checkpoints, Not(IsEmpty()));
  EXPECT_THAT(checkpoints.front(), testing::StartsWith("iteration_"));
  EXPECT_EQ(checkpoints.back(), "learner_resume");
}

TEST_F(ParallelTest, CtlTellsTheStatus) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  WaitForStatus(*program, IsTraining);
  const std::string address = WaitForAddress(*program);
  program_ = "worker/ctl";
  const auto status = Run("status", {"status", absl::StrCat("--coordinator=", address)});
  EXPECT_EQ(status->Wait(kPatience), 0) << status->err();
  EXPECT_THAT(status->out(), AllOf(HasSubstr("learner-0"), HasSubstr("collector-0"),
                                   HasSubstr("collector-1"), HasSubstr("buffer buffer_0: ")));
  const auto unknown = Run("unknown", {absl::StrCat("--coordinator=", address), "dance"});
  EXPECT_EQ(unknown->Wait(kPatience), 1);
  EXPECT_THAT(unknown->err(), HasSubstr("command 'dance' is not known, expected: status"));
  const auto nowhere = Run("nowhere", {"status"});
  EXPECT_EQ(nowhere->Wait(kPatience), 1);
  EXPECT_THAT(nowhere->err(), HasSubstr("--coordinator=HOST:PORT is missing"));
  Interrupt(program.get());
  const auto gone = Run("gone", {"status", absl::StrCat("--coordinator=", address), "--timeout=1"});
  EXPECT_EQ(gone->Wait(kPatience), 1);
  EXPECT_THAT(gone->err(), HasSubstr(address));
}

TEST_F(ParallelTest, CtlChangesTheNumberOfCollectorsAndStopsTheRun) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  WaitForStatus(*program, IsTraining);
  const std::string coordinator = absl::StrCat("--coordinator=", WaitForAddress(*program));
  program_ = "worker/ctl";
  const auto ctl = [&](const std::vector<std::string>& words, int code) {
    std::vector<std::string> args = words;
    args.push_back(coordinator);
    const auto done = Run("ctl", args);
    EXPECT_EQ(done->Wait(kPatience), code) << done->err();
    return done->out() + done->err();
  };
  const auto collectors = [](const RunStatus& status) {
    return std::count_if(status.worker().begin(), status.worker().end(),
                         [](const auto& worker) { return worker.role() == Hello::COLLECTOR; });
  };
  EXPECT_THAT(ctl({"grow", "1"}, 0), HasSubstr("3 collectors are wanted"));
  WaitForStatus(*program, [&](const RunStatus& status) { return collectors(status) == 3; });
  EXPECT_THAT(ctl({"drain", "collector-0"}, 0), HasSubstr("2 collectors are wanted"));
  WaitForStatus(*program, [&](const RunStatus& status) {
    return collectors(status) == 2 && Find(status, "collector-0") == nullptr;
  });
  EXPECT_THAT(ctl({"shrink", "1"}, 0), HasSubstr("1 collectors are wanted"));
  WaitForStatus(*program, [&](const RunStatus& status) { return collectors(status) == 1; });
  EXPECT_THAT(ctl({"inspect", "learner-0"}, 0), HasSubstr("name: \"learner-0\""));
  EXPECT_THAT(ctl({"inspect", "nobody"}, 1), HasSubstr("expected one of: "));
  EXPECT_THAT(ctl({"grow", "-2"}, 1), HasSubstr("grow by -2 collectors, expected at least 1"));
  EXPECT_THAT(ctl({"grow", "1000"}, 1), HasSubstr("expected 0 to 64"));
  EXPECT_THAT(ctl({"shrink", "2"}, 1), HasSubstr("that would be -1 collectors"));
  EXPECT_THAT(ctl({"grow"}, 1), HasSubstr("grow takes one argument"));
  EXPECT_THAT(ctl({"stop"}, 0), HasSubstr("the run ends"));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":false"));
}

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
}

// It takes connections, as the kernel does that for it, and answers nobody.
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
                                           ") answers nobody")),
                    HasSubstr("signal 9 (Killed)")));
  ExpectGoesOn(*program);
  Interrupt(program.get());
  EXPECT_THAT(Log("a", "coordinator"), HasSubstr(" evicted, 0 lost"));
}

// Before it has a run, in the middle of making one, and right after that.
TEST_F(ParallelTest, BeginsAlthoughItsCoordinatorIsKilledAtOnce) {
  const uint64_t seed = std::random_device{}();  // NOLINT(ding): each run tries other moments
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Rng random(seed, "kills");
  for (int run = 0; run < 8; ++run) {
    const std::string name = absl::StrCat("run-", run);
    const auto program = Start(name, Args(kSoakConfig, name, {kForever}));
    // Twice: the second one may find what the first one has left.
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

TEST_F(ParallelTest, AFolderThatIsThereStaysAsItIs) {
  ASSERT_THAT(CreateDirectories(RunPath("a")), IsOk());
  const auto program = Run("run", Args(kConfig, "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(), HasSubstr("exists already and is not overwritten"));
  EXPECT_THAT(ListDirectory(RunPath("a")).value(), IsEmpty());
}

// Each of the programs may see the run's folder from another place, and call it otherwise.
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

TEST_P(ResumeTest, AfterAnInterruptAndAfterADeathOfAll) {
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
  // And when nobody could save anything.
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

TEST_F(ParallelTest, ARunThatHasConvergedSaysSoWhenItIsResumed) {
  const auto program = Run("run", Args(kConfig, "a", {"--seed=0"}));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  const std::string exp_dir = absl::StrCat("--exp_dir=", RunPath("a"));
  const auto again = Run("again", {exp_dir, "--resume"});
  EXPECT_EQ(again->Wait(kPatience), 0) << again->err();
  EXPECT_EQ(again->out(), program->out());
  EXPECT_THAT(again->err(), AllOf(HasSubstr("had converged and let its rows go"),
                                  Not(HasSubstr("are gone from the store"))));
  const auto further =
      Run("further", Args(kConfig, "a", {"--seed=0", "--resume", "--set=env.stop_value=199"}));
  EXPECT_EQ(further->Wait(kPatience), 1);
  EXPECT_THAT(further->err(), AllOf(HasSubstr("had converged, at env.stop_value 195"),
                                    HasSubstr("load_ckpt_before_run=")));
  EXPECT_TRUE(PathExists(JoinPath(RunPath("a"), "result.json")));
}

// Its rows are in the memory of this machine.
TEST_F(ParallelTest, WhatARunNeedsToGoOnStaysWhenItsCoordinatorKeepsDying) {
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
  // Another run, which sweeps what others have left, leaves it alone.
  const auto other = Run("other", Args(kConfig, "b", {"--max_train_iter=20"}));
  EXPECT_EQ(other->Wait(kPatience), 0) << other->err();
  ASSERT_THAT(MemoryOfRuns(), SizeIs(1));
  program = Start("goes_on", Args(kSoakConfig, "a", {kForever, "--resume"}));
  const RunStatus after = WaitForStatus(*program, IsTraining);
  EXPECT_GE(after.envstep(), last.envstep());
  EXPECT_EQ(after.buffer(0).lost_count(), 0);
  Interrupt(program.get());
}

// `bazel run` starts a program in a folder of Bazel's.
TEST_F(ParallelTest, PathsAreSeenFromWhereBazelRunWasCalled) {
  const std::string program = Path("program");
  const std::string runfiles = absl::StrCat(program, ".runfiles/ding_worker");
  ASSERT_THAT(CreateDirectories(runfiles), IsOk());
  std::filesystem::copy_file(std::filesystem::canonical(kProgram), program);
  std::filesystem::copy_file(kSoakConfig, Path("run.textproto"));
  program_ = program;
  const auto printed = Start("printed", {"--config=run.textproto", "--print_config"}, [&] {
    (void)!chdir(runfiles.c_str());
    setenv("BUILD_WORKING_DIRECTORY", folder_.c_str(), 1);
  });
  EXPECT_EQ(printed->Wait(kPatience), 0) << printed->err();
  EXPECT_THAT(printed->out(), HasSubstr("CartPole-v0"));
}

TEST_F(ParallelTest, RefusesToResumeWhatItCannot) {
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
  damaged[30] = static_cast<char>(damaged[30] ^ 1);
  ASSERT_THAT(WriteFileAtomically(journal, damaged), IsOk());
  fails(Args(kSoakConfig, "a", {"--resume", "--max_train_iter=80"}), HasSubstr("is damaged"));
  // None of them has changed it.
  ASSERT_THAT(WriteFileAtomically(journal, whole), IsOk());
  const auto longer = Run("longer", Args(kSoakConfig, "a", {"--resume", "--max_train_iter=80"}));
  EXPECT_EQ(longer->Wait(kPatience), 0) << longer->err();
  EXPECT_THAT(longer->out(), HasSubstr("\"train_iter\":"));
}

// A minute of it by hand: bazel run //worker/testing:soak
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

TEST_F(ParallelTest, ALearnerGoesOnFromTheCheckpointOfTheOneThatWasKilled) {
  const auto program = Start(
      "run",
      Args(kSoakConfig, "a", {kForever, "--set=policy.learn.learner.hook.save_ckpt_seconds=0.01"}));
  const std::string resume = JoinPath(RunPath("a"), "ckpt/learner_resume");
  const RunStatus before = WaitForStatus(*program, [&](const RunStatus& status) {
    return IsTraining(status) && status.train_iter() > 100 && PathExists(resume);
  });
  // As if it had been killed while it wrote.
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

// Its successor has long written policies when the learner wakes, and what that does then must not
// show.
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
    // The coordinator refused nothing of the successor.
    WaitForStatus(*program, [&](const RunStatus& status) {
      return PidOf(status, name) == PidOf(replaced, name) &&
             status.policy_version() > replaced.policy_version();
    });
  }
  // The collector did not take its messages, which may have been noticed first.
  EXPECT_THAT(program->err(), HasSubstr("the length of the lease"));
  Interrupt(program.get());
}

TEST_F(ParallelTest, WorkersEndWhenTheCoordinatorAndWhoeverWatchesAreKilled) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  const RunStatus status = WaitForStatus(*program, IsTraining);
  // One of them has to notice by its lease alone.
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
  // The next run cleans up; it may be that of another test.
  const auto next = Run("next", Args(kConfig, "b", {"--max_train_iter=20"}));
  EXPECT_EQ(next->Wait(kPatience), 0) << next->err();
  EXPECT_THAT(MemoryOfRuns(), IsEmpty());
}

TEST_F(ParallelTest, TheRunEndsInOrderWhenWhoWatchesItIsKilled) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever}));
  WaitForStatus(*program, IsTraining);
  kill(program->pid(), SIGKILL);
  EXPECT_EQ(program->Wait(kPatience), -SIGKILL);
  EXPECT_THAT(ReapOrphans(absl::Minutes(1)), SizeIs(4));
  EXPECT_TRUE(PathExists(JoinPath(RunPath("a"), "result.json")));
}

TEST_F(ParallelTest, AnInterruptedRunSavesACheckpoint) {
  const auto program = Start(
      "run",
      Args(kSoakConfig, "a", {kForever, "--set=policy.learn.learner.hook.save_ckpt_seconds=0"}));
  WaitForStatus(*program, IsTraining);
  Interrupt(program.get());
  DING_ASSERT_OK_AND_ASSIGN(const auto checkpoints, ListDirectory(JoinPath(RunPath("a"), "ckpt")));
  EXPECT_THAT(checkpoints, Contains(testing::StartsWith("iteration_")));
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":false"));
}

TEST_F(ParallelTest, WhatCannotStartSaysWhy) {
  const auto fails = [this](const std::vector<std::string>& args,
                            const testing::Matcher<std::string>& why) {
    const auto program = Run("fails", args);
    EXPECT_EQ(program->Wait(kPatience), 1);
    EXPECT_THAT(program->err(), why);
  };
  fails({"--role=nonsense"},
        HasSubstr("--role is 'nonsense', expected all, coordinator, collector, learner or"));
  fails({}, HasSubstr("--config is missing"));
  fails({"--role=learner"}, HasSubstr("--coordinator=HOST:PORT is missing"));
  fails(
      Args(kConfig, "a", {"--set=system.comm_collector_type=pigeon"}),
      AllOf(HasSubstr("system.comm_collector_type"), HasSubstr("'pigeon'"), HasSubstr("grpc_fs")));
  fails(Args(kConfig, "a", {"--set=system.comm_learner_type=pigeon"}),
        AllOf(HasSubstr("system.comm_learner_type"), HasSubstr("'pigeon'")));
  fails(Args(kConfig, "a", {"--set=system.coordinator.lease_seconds=0.001"}),
        HasSubstr("system.coordinator.lease_seconds is 0.001"));
  fails(Args(kConfig, "a", {"--listen=nowhere"}), HasSubstr("nowhere"));
  fails(Args(kConfig, "b", {"--set=system.store_url=carrier:/pigeon"}), HasSubstr("carrier"));
  fails(Args(kConfig, "c", {"--set=system.store_url=mem:a"}), HasSubstr("memory of one process"));
  fails(Args(kConfig, "a", {"--set=system.coordinator.journal=JOURNAL_IN_STORE"}),
        AllOf(HasSubstr("system.coordinator.journal is JOURNAL_IN_STORE"),
              HasSubstr("goes with the run; expected 'redis:HOST:PORT/PREFIX'")));
  fails(Args(kConfig, "a", {"--set=system.store_url=redis:127.0.0.1:1"}),
        AllOf(HasSubstr("system.comm_collector_type is 'grpc_fs'"), HasSubstr("'grpc_redis'")));
  fails(Args(kConfig, "a", {"--set=system.comm_learner_type=grpc_redis"}),
        AllOf(HasSubstr("system.comm_learner_type is 'grpc_redis'"), HasSubstr("redis:HOST:PORT")));
  fails(Args(kConfig, "a",
             {"--set=system.store_url=redis:127.0.0.1:1",
              "--set=system.comm_collector_type=grpc_redis",
              "--set=system.comm_learner_type=grpc_redis"}),
        HasSubstr("cannot connect to Redis at 127.0.0.1:1"));
  EXPECT_FALSE(PathExists(RunPath("a"))) << "a run that cannot start leaves no folder";
  EXPECT_FALSE(PathExists(RunPath("b")));
}

TEST_F(ParallelTest, RefusesWhoDoesNotBelongToTheRunWhichGoesOn) {
  const auto program = Start("run", Args(kSoakConfig, "a", {kForever, kLongLease, kFewPolicies}));
  const std::string address = WaitForAddress(*program);
  WaitForStatus(*program, IsTraining);

  const auto second = Run("second", Args(kConfig, "b", {absl::StrCat("--listen=", address)}));
  EXPECT_EQ(second->Wait(kPatience), 1);
  EXPECT_THAT(second->err(), HasSubstr(address));
  EXPECT_THAT(MemoryOfRuns(), SizeIs(1));

  const auto other = Run("other", {"--role=collector", absl::StrCat("--coordinator=", address),
                                   absl::StrCat("--config=", kConfig)});
  EXPECT_EQ(other->Wait(kPatience), 1);
  EXPECT_THAT(other->err(), AllOf(HasSubstr("the config of collector"),
                                  HasSubstr("start it with the same config, or without one")));

  // A worker of a later version.
  DING_ASSERT_OK_AND_ASSIGN(auto later, transport_.Connect(address, absl::Seconds(30)));
  const std::unique_ptr<Session> session = Session::Start(std::move(later), {}).value();
  WorkerMessage message;
  message.mutable_hello()->mutable_version()->set_major(CurrentProtocol().major() + 1);
  ASSERT_THAT(session->Send(message.SerializeAsString(), absl::Seconds(30)), IsOk());
  EXPECT_THAT(session->Receive(absl::Seconds(30)),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("protocol version is ")));

  // Not gRPC, and not a frame.
  Rng random(7, "noise");
  std::string noise(100000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random.Next32());
  for (int i = 0; i < 20; ++i) {
    const int fd = ConnectTo(address);
    ASSERT_GE(fd, 0);
    (void)!send(fd, noise.data() + i, noise.size() - static_cast<size_t>(i), MSG_NOSIGNAL);
    close(fd);
  }
  DING_ASSERT_OK_AND_ASSIGN(auto connection, transport_.Connect(address, absl::Seconds(30)));
  ASSERT_THAT(connection->Send(noise, absl::Seconds(30)), IsOk());
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(Log("a", "coordinator"), absl::StrCat("refused ", "127.0.0.1"));
  }));
  connection->Close();

  ExpectGoesOn(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 0);
  Interrupt(program.get());
}

TEST_F(ParallelTest, WorkersOfAnyOriginMayJoin) {
  const auto coordinator = Start("run", Args(kConfig, "a", {"--role=coordinator"}));
  const std::string address = absl::StrCat("--coordinator=", WaitForAddress(*coordinator));
  const auto learner = Start("learner", {"--role=learner", address});
  const auto collector =
      Start("collector", {"--role=collector", address, absl::StrCat("--config=", kConfig)});
  EXPECT_EQ(coordinator->Wait(kPatience), 0) << coordinator->err();
  EXPECT_EQ(learner->Wait(kPatience), 0) << learner->err();
  EXPECT_EQ(collector->Wait(kPatience), 0) << collector->err();
  EXPECT_THAT(coordinator->out(), HasSubstr("\"stop\":true"));
}

TEST_F(ParallelTest, ALearnerWithoutDataFails) {
  const auto coordinator =
      Start("run", Args(kConfig, "a", {"--role=coordinator", "--set=policy.learn.data_timeout=1"}));
  const auto learner = Start(
      "learner", {"--role=learner", absl::StrCat("--coordinator=", WaitForAddress(*coordinator))});
  EXPECT_EQ(coordinator->Wait(kPatience), 1);
  EXPECT_THAT(coordinator->err(), AllOf(HasSubstr("3 tasks failed in a row"),
                                        HasSubstr("no data to learn from within 1s")));
  EXPECT_EQ(learner->Wait(kPatience), 0) << learner->err();
}

class ChaosTest : public ParallelTest {
 protected:
  ChaosTest() { program_ = "worker/testing/parallel_with_chaos"; }

  std::string WriteConfig(absl::string_view fault) const {
    const std::string path = Path("chaos.textproto");
    EXPECT_THAT(WriteFileAtomically(path, absl::StrCat(R"(
env {
  type: "chaos"
  params { [type.googleapis.com/ding.ChaosConfig] { at_step: 3 fault: )",
                                                       fault, R"( } }
  collector_env_num: 2
  evaluator_env_num: 2
}
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 }
  other { commander { collector_task_space: 2 } }
}
)")),
                IsOk());
    return path;
  }
};

TEST_F(ChaosTest, AnEnvThatKeepsFailingEndsTheRunWithItsName) {
  const auto program = Run("run", Args(WriteConfig("ERROR"), "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr(" tasks failed in a row, the last"), HasSubstr("chaos")));
  EXPECT_EQ(program->out(), "");
}

// It looks like one that has done its work.
TEST_F(ChaosTest, ACollectorThatKeepsExitingWithZeroEndsTheRunWithItsName) {
  const auto program = Run("run", Args(WriteConfig("EXIT exit_status: 0"), "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("collector-"),
                    HasSubstr("ended: exit status 0, but it was not done: something in it called"),
                    HasSubstr("5 times in a row soon after its start")));
}

TEST_F(ChaosTest, ACollectorThatKeepsDyingEndsTheRunWithItsName) {
  const auto program = Run("run", Args(WriteConfig("KILL"), "a", {}));
  EXPECT_EQ(program->Wait(kPatience), 1);
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("collector-"), HasSubstr("5 times in a row soon after its start")));
}

// A store that is gone, read-only or full pauses the run.
class PausesTest : public ParallelTest {
 protected:
  void ExpectPauses(const ChildProgram& program) {
    WaitForStatus(program,
                  [](const RunStatus& status) { return SomebodyWaitsFor(status, "the store "); });
  }
  void ExpectIsOver(const ChildProgram& program) {
    ExpectGoesOn(program);
    WaitForStatus(program,
                  [](const RunStatus& status) { return !SomebodyWaitsFor(status, "the store "); });
  }
};

class StoreTest : public PausesTest {
 protected:
  void SetUp() override { ASSERT_THAT(CreateDirectories(Path("store")), IsOk()); }

  std::unique_ptr<ChildProgram> StartWithStore(const std::function<void()>& before) {
    return Start("run",
                 Args(kSoakConfig, "a",
                      {kForever, kLongLease, kFewPolicies,
                       absl::StrCat("--set=system.store_url=file:", Path("store"))}),
                 before);
  }
};

TEST_F(StoreTest, MayBeGoneForATime) {
  const auto program = StartWithStore({});
  WaitForStatus(*program, IsTraining);
  ASSERT_EQ(rename(Path("store").c_str(), Path("away").c_str()), 0);
  ExpectPauses(*program);
  ASSERT_EQ(rename(Path("away").c_str(), Path("store").c_str()), 0);
  ExpectIsOver(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 0);
  Interrupt(program.get());
  DING_ASSERT_OK_AND_ASSIGN(const auto left, ListDirectory(Path("store")));
  EXPECT_THAT(left, IsEmpty());
}

// In a mount namespace of its own, with a file system of a few megabytes as the store.
class SmallStoreTest : public StoreTest {
 protected:
  // False: this machine does not allow it.
  static bool EnterNamespace() {
    const auto write_all = [](const char* path, const std::string& text) {
      const int fd = open(path, O_WRONLY | O_CLOEXEC);
      const bool written = fd >= 0 && write(fd, text.data(), text.size()) > 0;
      close(fd);
      return written;
    };
    const std::string uid = absl::StrCat(geteuid(), " ", geteuid(), " 1");
    const std::string gid = absl::StrCat(getegid(), " ", getegid(), " 1");
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_all("/proc/self/setgroups", "deny") &&
           write_all("/proc/self/uid_map", uid) && write_all("/proc/self/gid_map", gid) &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }
  static void MountOrExit(const std::string& folder) {
    if (!EnterNamespace() || mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64m") != 0) {
      _exit(kNotAllowed);
    }
  }
  // In the program's namespaces; in a process of one thread, as they demand.
  static bool Remount(const ChildProgram& program, const std::string& folder, unsigned long flags,
                      const std::string& options, bool again = true) {
    if (again) flags |= MS_REMOUNT;
    const pid_t pid = fork();
    if (pid == 0) {
      const auto enter = [&](const char* kind, int type) {
        const std::string path = absl::StrCat("/proc/", program.pid(), "/ns/", kind);
        return setns(open(path.c_str(), O_RDONLY | O_CLOEXEC), type) == 0;
      };
      _exit(enter("user", CLONE_NEWUSER) && enter("mnt", CLONE_NEWNS) &&
                    mount("tmpfs", folder.c_str(), "tmpfs", flags, options.c_str()) == 0
                ? 0
                : 1);
    }
    return ReapChild(pid) == 0;
  }
  // Mounts an empty file system at a folder, so that it cannot be removed.
  static bool MountOn(const ChildProgram& program, const std::string& folder) {
    return Remount(program, folder, 0, "size=64k", /*again=*/false);
  }
  static int ReapChild(pid_t pid) {
    int wait_status = 0;
    return waitpid(pid, &wait_status, 0) == pid && WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
                                                                          : -1;
  }

  void SetUp() override {
    StoreTest::SetUp();
    const pid_t pid = fork();
    if (pid == 0) {
      MountOrExit(Path("store"));
      _exit(0);
    }
    if (ReapChild(pid) != 0) GTEST_SKIP() << "no mount namespaces here";
    program_run_ = StartWithStore([this] { MountOrExit(Path("store")); });
    WaitForStatus(*program_run_, IsTraining);
  }

  static constexpr int kNotAllowed = 99;
  std::unique_ptr<ChildProgram> program_run_;
};

TEST_F(SmallStoreTest, MayBeFullForATime) {
  // It cannot be made smaller than what is in it; the smallest that can be is full, or will be soon.
  const auto resize = [this](int kilobytes) {
    return Remount(*program_run_, Path("store"), 0, absl::StrCat("size=", kilobytes, "k"));
  };
  int kilobytes = 512;
  while (!resize(kilobytes)) kilobytes += 16;
  ExpectPauses(*program_run_);
  EXPECT_TRUE(Remount(*program_run_, Path("store"), 0, "size=64m"));
  ExpectIsOver(*program_run_);
  EXPECT_EQ(WaitForStatus(*program_run_, IsTraining).workers_lost(), 0);
  Interrupt(program_run_.get());
}

TEST_F(SmallStoreTest, MayBeReadOnlyForATime) {
  // Busy for as long as a file is open for writing.
  EXPECT_TRUE(
      Eventually([&] { return Remount(*program_run_, Path("store"), MS_RDONLY, "size=64m"); }));
  ExpectPauses(*program_run_);
  EXPECT_TRUE(Remount(*program_run_, Path("store"), 0, "size=64m"));
  ExpectIsOver(*program_run_);
  EXPECT_EQ(WaitForStatus(*program_run_, IsTraining).workers_lost(), 0);
  Interrupt(program_run_.get());
}

// A full file system stands in the place of the folder for what is saved.
TEST_F(SmallStoreTest, WhatCannotBeSavedStaysAndTheExitStatusSaysSo) {
  Interrupt(program_run_.get());
  auto program =
      Start("memory", Args(kSoakConfig, "b", {kForever}), [this] { MountOrExit(Path("store")); });
  const RunStatus before = WaitForStatus(*program, IsTraining);
  const std::string saved = JoinPath(RunPath("b"), "coordinator/saved");
  ASSERT_THAT(CreateDirectories(saved), IsOk());
  ASSERT_TRUE(MountOn(*program, saved));
  kill(program->pid(), SIGINT);
  EXPECT_EQ(program->Wait(kPatience), 3) << program->err();
  EXPECT_THAT(program->err(),
              AllOf(HasSubstr("are not saved; they stay in /dev/shm/ding_worker-"),
                    HasSubstr(absl::StrCat("parallel --resume --exp_dir=", RunPath("b"))),
                    HasSubstr("coordinator/saved")));
  EXPECT_THAT(program->out(), HasSubstr("result {"));
  const auto other = Run("other", Args(kConfig, "c", {"--max_train_iter=20"}));
  EXPECT_EQ(other->Wait(kPatience), 0) << other->err();
  ASSERT_THAT(MemoryOfRuns(), SizeIs(1));
  program = Start("goes_on", Args(kSoakConfig, "b", {kForever, "--resume"}));
  const RunStatus after = WaitForStatus(*program, [](const RunStatus& status) {
    return IsTraining(status) && status.buffer_size() == 1;
  });
  EXPECT_GE(after.envstep(), before.envstep());
  EXPECT_EQ(after.buffer(0).lost_count(), 0);
  EXPECT_THAT(Log("b", "coordinator"), Not(HasSubstr("goes on with 0 of ")));
  Interrupt(program.get());
}

class RedisTest : public PausesTest {
 protected:
  void StartRedis(const RedisServer::Options& options) {
    DING_ASSERT_OK_AND_ASSIGN(redis_, RedisServer::Start(options));
  }
  std::vector<std::string> RedisArgs(absl::string_view config, std::vector<std::string> more) {
    more.push_back(absl::StrCat("--set=system.store_url=", redis_->Url("runs")));
    more.push_back("--set=system.comm_collector_type=grpc_redis");
    more.push_back("--set=system.comm_learner_type=grpc_redis");
    return Args(config, "a", more);
  }
  std::string KeysOfRuns() {
    return redis_->Command({"EVAL", "return #redis.call('KEYS', 'runs/*') .. ''", "0"}).value();
  }

  std::unique_ptr<RedisServer> redis_;
};

TEST_F(RedisTest, ConvergesAndLeavesNothingNorTellsThePassword) {
  RedisServer::Options options;
  options.password = "s3cret-and-l0ng";
  StartRedis(options);
  const auto program = Run("run", RedisArgs(kConfig, {"--seed=0"}));
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":true"));
  EXPECT_EQ(KeysOfRuns(), "0");
  std::string all = absl::StrCat(program->out(), program->err());
  for (const char* name : {"coordinator", "learner-0", "collector-0", "collector-1"}) {
    absl::StrAppend(&all, Log("a", name));
  }
  absl::StrAppend(&all, ReadFile(JoinPath(RunPath("a"), "total_config.textproto")).value());
  EXPECT_THAT(all, AllOf(HasSubstr("password_file"), Not(HasSubstr(options.password))));
}

TEST_F(RedisTest, MayBeKilledAndComeBackWithWhatWasAcknowledged) {
  RedisServer::Options options;
  options.append_fsync = "always";
  StartRedis(options);
  const auto program = Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies}));
  WaitForStatus(*program, IsTraining);
  redis_->Kill();
  ExpectPauses(*program);
  ASSERT_THAT(redis_->Restart(), IsOk());
  ExpectIsOver(*program);
  EXPECT_EQ(WaitForStatus(*program, IsTraining).workers_lost(), 0);
  Interrupt(program.get());
  EXPECT_THAT(Log("a", "learner-0"), Not(HasSubstr("Redis has lost what it had")));
  EXPECT_EQ(KeysOfRuns(), "0");
}

TEST_F(RedisTest, MayBeAwayWhenTheRunEnds) {
  RedisServer::Options options;
  options.append_fsync = "always";
  StartRedis(options);
  const auto program = Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies}));
  WaitForStatus(*program, IsTraining);
  redis_->Kill();
  kill(program->pid(), SIGINT);
  // The coordinator has tried to empty it, or is about to.
  EXPECT_TRUE(
      Eventually([&] { return absl::StrContains(Log("a", "coordinator"), "rows: "); }, kPatience));
  ASSERT_THAT(redis_->Restart(), IsOk());
  EXPECT_EQ(program->Wait(kPatience), 128 + SIGINT) << program->err();
  EXPECT_EQ(KeysOfRuns(), "0");
  EXPECT_THAT(program->err(), Not(HasSubstr("the run cannot go on as it is")));
}

// Collectors that begin then find no policy, and the learner none of the rows that it draws.
TEST_F(RedisTest, MayComeBackEmptyWhichIsSaid) {
  StartRedis({});
  const auto program = Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies}));
  const RunStatus before = WaitForStatus(*program, IsTraining);
  redis_->Kill();
  for (const char* name : {"collector-0", "collector-1"}) {
    kill(static_cast<pid_t>(PidOf(before, name)), SIGKILL);
  }
  ASSERT_THAT(redis_->Restart(), IsOk());
  ExpectIsOver(*program);
  EXPECT_THAT(Log("a", "learner-0"), HasSubstr("Redis has lost what it had"));
  Interrupt(program.get());
}

// What survives the coordinator is in Redis, too.
class RedisJournalTest : public RedisTest {
 protected:
  std::unique_ptr<ChildProgram> StartRun() {
    return Start("run", RedisArgs(kSoakConfig, {kForever, kLongLease, kFewPolicies, kInRedis}));
  }
  RunStatus WaitForNextCoordinator(const ChildProgram& program, const RunStatus& before) {
    RunStatus after = WaitForStatus(program, [&before](const RunStatus& status) {
      return status.incarnation() > before.incarnation() && IsTraining(status) &&
             status.buffer_size() == 1;
    });
    EXPECT_EQ(after.run(), before.run());
    EXPECT_GE(after.envstep(), before.envstep());
    ExpectGoesOn(program);
    return after;
  }
  static void KillCoordinator(const RunStatus& status) {
    kill(static_cast<pid_t>(status.coordinator_pid()), SIGKILL);
  }
  void KillAll(ChildProgram* program) {
    const RunStatus status = WaitForStatus(*program, IsTraining);
    std::vector<pid_t> pids = {static_cast<pid_t>(status.coordinator_pid())};
    for (const WorkerStatus& worker : status.worker()) {
      pids.push_back(static_cast<pid_t>(worker.pid()));
    }
    kill(program->pid(), SIGSTOP);
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    kill(program->pid(), SIGKILL);
    EXPECT_EQ(program->Wait(kPatience), -SIGKILL);
    // Redis, which is also this process's child, lives on.
    for (const pid_t pid : pids) {
      EXPECT_TRUE(Eventually([pid] { return waitpid(pid, nullptr, WNOHANG) == pid; }));
    }
  }
  // The arguments that go on with a run without its folder.
  std::vector<std::string> GoOnElsewhere(const RunStatus& status, absl::string_view folder) {
    return {absl::StrCat("--exp_dir=", RunPath(folder)), "--resume", kLongLease,
            absl::StrCat("--run_store=", redis_->Url(absl::StrCat("runs/", status.run())))};
  }

  static constexpr char kInRedis[] = "--set=system.coordinator.journal=JOURNAL_IN_STORE";
};

TEST_F(RedisJournalTest, GoesOnFromRedisHoweverItEnded) {
  RedisServer::Options options;
  options.password = "s3cret";
  StartRedis(options);
  auto program = StartRun();
  RunStatus before = WaitForStatus(*program, IsTraining);
  KillCoordinator(before);
  before = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(before.buffer(0).lost_count(), 0);
  EXPECT_FALSE(PathExists(JoinPath(RunPath("a"), "coordinator/journal")));
  Interrupt(program.get());
  EXPECT_FALSE(PathExists(JoinPath(RunPath("a"), "coordinator/saved"))) << "it stays in Redis";

  const std::vector<std::string> here = {absl::StrCat("--exp_dir=", RunPath("a")), "--resume"};
  program = Start("again", here);
  before = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(before.buffer(0).lost_count(), 0);
  KillAll(program.get());
  program = Start("and_again", here);
  before = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(before.buffer(0).lost_count(), 0);
  KillAll(program.get());
  program = Start("elsewhere", GoOnElsewhere(before, "b"));
  before = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(before.buffer(0).lost_count(), 0);
  KillCoordinator(before);
  WaitForNextCoordinator(*program, before);
  Interrupt(program.get());
  // One that converges leaves nothing.
  program = Run("converges", {absl::StrCat("--exp_dir=", RunPath("b")), "--resume",
                              absl::StrCat("--config=", RunPath("b"), "/total_config.textproto"),
                              "--set=env.stop_value=-1"});
  EXPECT_EQ(program->Wait(kPatience), 0) << program->err();
  EXPECT_THAT(program->out(), HasSubstr("\"stop\":true"));
  EXPECT_EQ(KeysOfRuns(), "0");
  const auto over = Run("over", {absl::StrCat("--exp_dir=", RunPath("b")), "--resume"});
  EXPECT_EQ(over->Wait(kPatience), 0) << over->err();
  EXPECT_EQ(over->out(), program->out());
  // The folder of before knows nothing of that.
  const auto first = Run("first", here);
  EXPECT_EQ(first->Wait(kPatience), 1);
  EXPECT_THAT(first->err(), HasSubstr("has no journal of this run: it had converged"));
}

TEST_F(RedisJournalTest, GoesOnThoughRedisCameBackEmptyAndThenItsCoordinatorWasKilled) {
  StartRedis({});
  const auto program = StartRun();
  RunStatus before = WaitForStatus(*program, IsTraining);
  redis_->Kill();
  for (const char* name : {"collector-0", "collector-1"}) {
    kill(static_cast<pid_t>(PidOf(before, name)), SIGKILL);
  }
  ASSERT_THAT(redis_->Restart(), IsOk());
  ExpectIsOver(*program);
  EXPECT_THAT(Log("a", "coordinator"), HasSubstr("all of it was put there again"));
  before = WaitForStatus(*program, IsTraining);
  KillCoordinator(before);
  before = WaitForNextCoordinator(*program, before);
  EXPECT_GT(before.buffer(0).lost_count(), 0);
  EXPECT_THAT(Log("a", "coordinator"),
              HasSubstr("are gone from the store; these rows are dropped"));
  Interrupt(program.get());
}

TEST_F(RedisJournalTest, ACoordinatorEndsWhenAnotherOneGoesOnWithItsRun) {
  StartRedis({});
  const auto old = StartRun();
  const RunStatus before = WaitForStatus(*old, IsTraining);
  const auto program = Start("elsewhere", GoOnElsewhere(before, "b"));
  EXPECT_EQ(old->Wait(kPatience), 1) << old->err();
  EXPECT_THAT(old->err(), HasSubstr("another coordinator goes on with this run"));
  const RunStatus after = WaitForNextCoordinator(*program, before);
  EXPECT_EQ(after.buffer(0).lost_count(), 0);
  Interrupt(program.get());
}

}  // namespace
}  // namespace ding
