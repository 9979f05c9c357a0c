#include "ding_worker/env/subprocess_env_manager.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/testing/env_manager_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::StatusCode kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

EnvManagerConformanceCase Processes(std::string name, int envs_per_process) {
  EnvManagerConformanceCase processes;
  processes.name = std::move(name);
  processes.create = [envs_per_process](EnvManagerCore::Options options, int wait_num,
                                        std::vector<EnvFactory> factories) {
    SubprocessEnvManagerOptions all;
    static_cast<EnvManagerCore::Options&>(all) = std::move(options);
    all.envs_per_process = envs_per_process;
    all.wait_num = wait_num;
    return CreateSubprocessEnvManager(all, std::move(factories));
  };
  processes.in_this_process = false;
  return processes;
}

const EnvManagerConformanceCase kCases[] = {Processes("OneEach", 1), Processes("Pairs", 2),
                                            Processes("OnePerCore", 0)};

INSTANTIATE_TEST_SUITE_P(Processes, EnvManagerConformance, testing::ValuesIn(kCases),
                         EnvManagerConformanceName);
INSTANTIATE_TEST_SUITE_P(Processes, EnvManagerStateConformance, testing::ValuesIn(kCases),
                         EnvManagerConformanceName);
// Envs that share a process wait for each other.
INSTANTIATE_TEST_SUITE_P(Processes, AsyncEnvManagerConformance,
                         testing::Values(Processes("OneEach", 1)), EnvManagerConformanceName);

// What a FragileEnv can be told to do, as an action or by the parameter "behavior" of a reset.
enum Behavior : int64_t {
  kNothing,
  kSegfault,
  kAbort,
  kExit,
  kHang,
  kEatMemory,
  kKillItself,
  kHangOnce,  // the first time that any env is told to
  kStartDescendants,
  kTakeTime,
  kNumBehaviors,
};

// Processes that envs have started; shared by all processes.
struct Descendants {
  std::atomic<int> count{0};
  std::atomic<pid_t> pids[16];
};
Descendants& AllDescendants() {
  static auto* const descendants = new (mmap(nullptr, sizeof(Descendants), PROT_READ | PROT_WRITE,
                                             MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Descendants();
  return *descendants;
}

// In a session of its own, so that no signal to the group of the env reaches it.
void Serve() {
  setsid();
  for (const int number : {SIGTERM, SIGHUP, SIGINT}) signal(number, SIG_IGN);
  AllDescendants().pids[AllDescendants().count.fetch_add(1) % 16].store(getpid());
  while (true) absl::SleepFor(absl::Seconds(1));
}

// One that is a child of the env, one that is a daemon: its parent has ended, and one that the
// daemon has started.
void StartDescendants() {
  const int before = AllDescendants().count.load();
  if (fork() == 0) Serve();
  const pid_t parent = fork();
  if (parent == 0) {
    if (fork() == 0) {
      setsid();
      if (fork() == 0) Serve();
      Serve();
    }
    _exit(0);
  }
  waitpid(parent, nullptr, 0);
  while (AllDescendants().count.load() < before + 3) absl::SleepFor(absl::Milliseconds(1));
}

// Shared by all processes.
std::atomic<int>& TimesHung() {
  static auto* const times = new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
  return *times;
}

void Behave(int64_t behavior) {
  if (behavior == kNothing) return;
  if (behavior == kTakeTime) return absl::SleepFor(absl::Milliseconds(5));
  std::fprintf(stderr, "line 1\nlast words\n");
  switch (behavior) {
    case kSegfault:
      raise(SIGSEGV);
      break;
    case kAbort:
      std::abort();
    case kExit:
      _exit(3);
    case kKillItself:
      kill(getpid(), SIGKILL);
      break;
    case kEatMemory:
      for (std::vector<std::unique_ptr<char[]>> eaten; eaten.size() < 4096;) {
        eaten.push_back(std::make_unique<char[]>(1 << 20));
      }
      break;
    case kStartDescendants:
      StartDescendants();
      break;
    case kHangOnce:
      if (TimesHung().fetch_add(1) > 0) return;
      [[fallthrough]];
    case kHang:
      while (true) absl::SleepFor(absl::Seconds(1));
    default:
      break;
  }
}

// The observation is {its process, step of the episode}.
class FragileEnv : public Env {
 public:
  explicit FragileEnv(EnvSpec spec) : spec_(std::move(spec)) {}

  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    Behave(static_cast<int64_t>(start.params.GetOr("behavior", 0)));
    step_ = 0;
    Show(obs);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* /*result*/) override {
    Behave(action.scalar<int64_t>(0));
    ++step_;
    Show(obs);
    return absl::OkStatus();
  }

 private:
  void Show(const RowRef& obs) const {
    obs.field<float>(0)[0] = static_cast<float>(getpid());
    obs.field<float>(0)[1] = static_cast<float>(step_);
  }

  const EnvSpec spec_;
  int step_ = 0;
};

absl::StatusOr<std::unique_ptr<Env>> MakeFragile() {
  EnvSpec spec;
  spec.name = "Fragile";
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {2})}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", kNumBehaviors)}));
  return std::make_unique<FragileEnv>(std::move(spec));
}

class SubprocessTest : public testing::Test {
 protected:
  SubprocessTest() {
    options_.step_timeout = absl::Milliseconds(300);
    options_.reset_timeout = absl::Milliseconds(300);
    options_.retry_waiting_time = absl::ZeroDuration();
  }

  std::unique_ptr<EnvManager> Launched(int env_num = 3) {
    auto manager =
        CreateSubprocessEnvManager(options_, std::vector<EnvFactory>(env_num, MakeFragile));
    EXPECT_THAT(manager, IsOk());
    EXPECT_THAT((*manager)->Launch(), IsOk());
    return *std::move(manager);
  }

  // Has all ready envs do nothing, except those that `behaviors` names.
  static absl::StatusOr<const Timesteps*> Step(EnvManager* manager, std::vector<int64_t> actions) {
    std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
    std::vector<int> env_ids;
    for (size_t i = 0; i < actions.size(); ++i) env_ids.push_back(static_cast<int>(i));
    return manager->Step(env_ids, ColumnsView(manager->env_spec().action.get(), &column, 0,
                                              static_cast<int64_t>(actions.size())));
  }

  static std::vector<pid_t> Pids(EnvManager* manager) {
    std::vector<pid_t> pids;
    const ReadyObs ready = manager->ready_obs();
    for (int64_t i = 0; i < ready.obs.rows(); ++i) {
      pids.push_back(static_cast<pid_t>(ready.obs.row(i).field<float>(0)[0]));
    }
    return pids;
  }

  SubprocessEnvManagerOptions options_;
};

bool Exists(pid_t pid) { return kill(pid, 0) == 0; }

// The parent of a process; 0 if there is no such process.
pid_t ParentOf(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  pid_t parent = 0;
  stat >> number >> name >> state >> parent;
  return parent;
}

// The fork server that started the process of an env; a keeper is between them.
pid_t ForkServerOf(pid_t env) { return ParentOf(ParentOf(env)); }

struct FaultCase {
  const char* name;
  Behavior behavior;
  absl::StatusCode code;
  const char* how;
};

class FaultTest : public SubprocessTest, public testing::WithParamInterface<FaultCase> {};

TEST_P(FaultTest, AStepThatKillsTheProcessIsAbnormalAndTheRunGoesOn) {
  options_.memory_limit_mb = GetParam().behavior == kEatMemory ? 64 : 0;
  // The others may take the time that a busy machine gives them.
  if (GetParam().behavior != kHang) options_.step_timeout = absl::Minutes(1);
  const auto manager = Launched();
  const std::vector<pid_t> before = Pids(manager.get());
  ASSERT_THAT(Step(manager.get(), {0, 0, 0}), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps,
                            Step(manager.get(), {0, GetParam().behavior, 0}));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 1, 0));
  ASSERT_THAT(steps->causes, SizeIs(1));
  EXPECT_EQ(steps->causes[0].row, 1);
  EXPECT_THAT(steps->causes[0].cause, IsError(GetParam().code, "env 1 (Fragile): its process",
                                              GetParam().how, "line 1\nlast words"));
  const ReadyObs ready = manager->ready_obs();
  EXPECT_THAT(ready.env_ids, ElementsAre(0, 1, 2));
  EXPECT_EQ(ready.obs.row(0).field<float>(0)[1], 2);
  EXPECT_EQ(ready.obs.row(1).field<float>(0)[1], 0);
  const std::vector<pid_t> after = Pids(manager.get());
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[1]);
  EXPECT_FALSE(Exists(before[1]));
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const next, Step(manager.get(), {0, 0, 0}));
  EXPECT_THAT(next->abnormal, Each(0));
  EXPECT_THAT(next->causes, IsEmpty());
}

const FaultCase kFaultCases[] = {
    {"Segfault", kSegfault, kUnavailable, "was killed by signal 11 (Segmentation fault)"},
    {"Abort", kAbort, kUnavailable, "was killed by signal 6"},
    {"Exit", kExit, kUnavailable, "exited with code 3"},
    {"Kill", kKillItself, kUnavailable, "was killed by signal 9"},
    {"Hang", kHang, kDeadlineExceeded, "did not finish a step in 300ms (step_timeout)"},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // The sanitizers' allocators know no new_handler.
    {"EatMemory", kEatMemory, kResourceExhausted, "passed memory_limit_mb (64)"},
#endif
};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
INSTANTIATE_TEST_SUITE_P(Faults, FaultTest, testing::ValuesIn(kFaultCases),
                         [](const auto& info) { return std::string(info.param.name); });
#else
// They also make a signal of their own of SIGSEGV and SIGABRT.
INSTANTIATE_TEST_SUITE_P(Faults, FaultTest,
                         testing::Values(kFaultCases[2], kFaultCases[3], kFaultCases[4]),
                         [](const auto& info) { return std::string(info.param.name); });
#endif

TEST_F(SubprocessTest, KilledBetweenStepsItsNextStepIsAbnormal) {
  const auto manager = Launched();
  const pid_t pid = Pids(manager.get())[2];
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  while (Exists(pid)) absl::SleepFor(absl::Milliseconds(1));
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get(), {0, 0, 0}));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 0, 1));
  ASSERT_THAT(steps->causes, SizeIs(1));
  EXPECT_THAT(steps->causes[0].cause, IsUnavailable("signal 9"));
  EXPECT_THAT(Step(manager.get(), {0, 0, 0}), IsOk());
}

TEST_F(SubprocessTest, EnvsOfOneProcessShareItsFate) {
  options_.envs_per_process = 2;
  const auto manager = Launched(4);
  const std::vector<pid_t> pids = Pids(manager.get());
  EXPECT_EQ(pids[0], pids[1]);
  EXPECT_NE(pids[1], pids[2]);
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* steps, Step(manager.get(), {kExit}));
  EXPECT_THAT(steps->abnormal, ElementsAre(1));
  DING_ASSERT_OK_AND_ASSIGN(steps, Step(manager.get(), {0, 0, 0, 0}));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 1, 0, 0));
  ASSERT_THAT(steps->causes, SizeIs(1));
  EXPECT_THAT(
      steps->causes[0].cause.message(),
      AllOf(HasSubstr("env 1 (Fragile): it shares a process with env 0"), HasSubstr("last words")));
  DING_ASSERT_OK_AND_ASSIGN(steps, Step(manager.get(), {0, 0, 0, 0}));
  EXPECT_THAT(steps->abnormal, Each(0));
}

TEST_F(SubprocessTest, AProcessIsWokenAlthoughItsLastAnswerIsNotTaken) {
  options_.envs_per_process = 2;
  options_.wait_num = 1;
  const auto manager = Launched(2);
  alarm(60);  // A process that sleeps on would hang the test.
  for (int i = 0; i < 20; ++i) {
    const ReadyObs ready = manager->ready_obs();
    const std::vector<int> env_ids(ready.env_ids.begin(), ready.env_ids.end());
    std::vector<int64_t> actions;
    for (const int env_id : env_ids) actions.push_back(env_id == 0 ? kNothing : kTakeTime);
    std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
    EXPECT_THAT(manager->Step(env_ids, ColumnsView(manager->env_spec().action.get(), &column, 0,
                                                   static_cast<int64_t>(env_ids.size()))),
                IsOk());
    // The slow env answers meanwhile, and their process goes to sleep.
    absl::SleepFor(absl::Milliseconds(20));
  }
  alarm(0);
}

TEST_F(SubprocessTest, AbnormalStepsByCrashesAreBounded) {
  options_.max_abnormal_steps = 1;
  const auto manager = Launched();
  ASSERT_THAT(Step(manager.get(), {0, kExit, 0}), IsOk());
  EXPECT_THAT(
      Step(manager.get(), {0, kExit, 0}),
      IsInternal("env 1 (Fragile): 2 abnormal steps in a row", "exited with code 3", "last words"));
  EXPECT_EQ(manager->env_state(1), EnvState::kError);
  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_THAT(Step(manager.get(), {0, 0, 0}), IsOk());
}

TEST_F(SubprocessTest, AResetThatHangsOrCrashesIsTriedAgainInANewProcess) {
  TimesHung().store(0);
  options_.max_retry = 2;
  const auto manager = Launched();
  const pid_t before = Pids(manager.get())[1];
  const auto reset = [&](Behavior behavior) {
    return manager->Reset({EnvReset{1, NamedValues{{"behavior", static_cast<double>(behavior)}}}});
  };
  ASSERT_THAT(reset(kHangOnce), IsOk());
  EXPECT_EQ(TimesHung().load(), 2);
  EXPECT_NE(Pids(manager.get())[1], before);
  EXPECT_THAT(reset(kHang),
              IsError(kDeadlineExceeded, "env 1 (Fragile): reset failed", "attempts: 2",
                      "did not finish a reset in 300ms (reset_timeout)"));
  EXPECT_TRUE(manager->closed());
  ASSERT_THAT(manager->Launch(), IsOk());
  EXPECT_THAT(reset(kExit), IsUnavailable("env 1", "its process"));
}

// Shared by all processes.
std::atomic<int>& StartsToFail() {
  static auto* const starts = new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
  return *starts;
}

// A process copies the factories of its envs when it starts, before it calls any env. So the copy
// can end the process at its start.
struct FailingStart {
  FailingStart() = default;
  FailingStart(const FailingStart& other) : made_in(other.made_in) {
    if (getpid() != made_in && StartsToFail().fetch_sub(1) > 0) Behave(kExit);
  }
  absl::StatusOr<std::unique_ptr<Env>> operator()() const { return MakeFragile(); }

  const pid_t made_in = getpid();
};

TEST_F(SubprocessTest, AProcessThatEndsAtItsStartCostsAnAttempt) {
  options_.max_retry = 3;
  StartsToFail().store(0);
  DING_ASSERT_OK_AND_ASSIGN(const auto manager,
                            CreateSubprocessEnvManager(options_, {FailingStart()}));
  ASSERT_THAT(manager->Launch(), IsOk());
  StartsToFail().store(2);
  ASSERT_THAT(Step(manager.get(), {kExit}), IsOk());
  EXPECT_EQ(StartsToFail().load(), -1) << "the third process has started";
  ASSERT_THAT(Step(manager.get(), {0}), IsOk());

  StartsToFail().store(1000);
  EXPECT_THAT(Step(manager.get(), {kExit}),
              IsUnavailable("env 0 (Fragile): reset failed", "attempts: 3",
                            "its process exited with code 3"));
  EXPECT_EQ(StartsToFail().load(), 997);
}

TEST_F(SubprocessTest, AnEnvThatIsNeverReadyIsNamed) {
  options_.connect_timeout = absl::Milliseconds(300);
  const EnvFactory never = []() -> absl::StatusOr<std::unique_ptr<Env>> {
    while (true) absl::SleepFor(absl::Seconds(1));
  };
  EXPECT_THAT(CreateSubprocessEnvManager(options_, {never}),
              IsError(kDeadlineExceeded, "env 0", "connect_timeout"));
  DING_ASSERT_OK_AND_ASSIGN(const auto manager,
                            CreateSubprocessEnvManager(options_, {MakeFragile, never}));
  EXPECT_THAT(manager->Launch(), IsError(kDeadlineExceeded, "env 1", "connect_timeout"));
  const EnvFactory crashes = []() -> absl::StatusOr<std::unique_ptr<Env>> {
    Behave(kExit);
    return absl::InternalError("unreachable");
  };
  EXPECT_THAT(CreateSubprocessEnvManager(options_, {crashes}),
              IsUnavailable("env 0", "exited with code 3", "last words"));
}

// What is left behind.

int OpenFiles() {
  int count = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

int SharedMappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("rw-s") != std::string::npos) ++count;
  }
  return count;
}

TEST_F(SubprocessTest, LaunchesLeaveNothingBehind) {
  TimesHung();  // Keeps its memory.
  const int files = OpenFiles();
  const int mappings = SharedMappings();
  std::vector<pid_t> pids;
  {
    const auto manager = Launched();
    for (int i = 0; i < 100; ++i) {
      pids = Pids(manager.get());
      manager->Close();
      for (const pid_t pid : pids) EXPECT_FALSE(Exists(pid)) << "after Close()";
      ASSERT_THAT(manager->Launch(), IsOk());
    }
  }
  for (int i = 0; i < 5; ++i) {
    const auto manager = Launched();
    // One that hangs is no reason to stay.
    if (i == 3) {
      EXPECT_THAT(Step(manager.get(), {kHang, 0, kExit}), IsOk());
    }
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "a zombie or a process";
  EXPECT_EQ(OpenFiles(), files);
  EXPECT_EQ(SharedMappings(), mappings);
}

TEST_F(SubprocessTest, NoProcessOutlivesAParentThatIsKilled) {
  // Orphans come to us.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  for (const bool stepping : {false, true}) {
    SCOPED_TRACE(stepping);
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t parent = fork();
    if (parent == 0) {
      options_.step_timeout = absl::ZeroDuration();
      // Another server, which must not keep the first from seeing the end.
      const auto one = Launched();
      const auto other = Launched();
      const bool told = write(ready[1], "x", 1) == 1;
      if (stepping && told) Step(one.get(), {kHang, kHang, 0}).IgnoreError();
      while (true) absl::SleepFor(absl::Seconds(1));
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    if (stepping) absl::SleepFor(absl::Milliseconds(50));
    ASSERT_EQ(kill(parent, SIGKILL), 0);
    // All of them end, and can be reaped. Bounded by the timeout of the test.
    int reaped = 0;
    while (waitpid(-1, nullptr, 0) > 0) ++reaped;
    EXPECT_EQ(errno, ECHILD);
    EXPECT_GE(reaped, 3) << "the parent and two fork servers";
    close(ready[0]);
    close(ready[1]);
  }
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

// Whatever becomes of it, and wherever they hide.
class DescendantsTest : public SubprocessTest {
 protected:
  DescendantsTest() {
    options_.step_timeout = absl::Minutes(1);
    AllDescendants().count.store(0);
  }
};

class DescendantsEndTest : public DescendantsTest,
                           public testing::WithParamInterface<const char*> {};

TEST_P(DescendantsEndTest, ProcessesThatAnEnvHasStartedEndWithIt) {
  const std::string how = GetParam();
  auto manager = Launched(2);
  const std::vector<pid_t> envs = Pids(manager.get());
  ASSERT_THAT(Step(manager.get(), {kStartDescendants, 0}), IsOk());
  ASSERT_THAT(Step(manager.get(), {0, kStartDescendants}), IsOk());
  ASSERT_EQ(AllDescendants().count.load(), 6);
  const auto descendants_alive = [] {
    return std::count_if(std::begin(AllDescendants().pids), std::begin(AllDescendants().pids) + 6,
                         [](const auto& pid) { return Exists(pid.load()); });
  };
  ASSERT_EQ(descendants_alive(), 6) << "they live for as long as their env does";
  if (how == "crashes") {
    ASSERT_THAT(Step(manager.get(), {kSegfault, 0}), IsOk());
    EXPECT_EQ(descendants_alive(), 3) << "the other env's stay";
  } else if (how == "keeper is killed") {
    const pid_t keeper = ParentOf(envs[0]);
    ASSERT_GT(keeper, 0);
    ASSERT_EQ(kill(keeper, SIGKILL), 0);
    while (Exists(envs[0]) || descendants_alive() > 3) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_THAT(Step(manager.get(), {0, 0}), IsOk());
    EXPECT_EQ(descendants_alive(), 3) << "the other env's stay";
  }
  manager->Close();
  EXPECT_EQ(descendants_alive(), 0);
}

INSTANTIATE_TEST_SUITE_P(Causes, DescendantsEndTest,
                         testing::Values("closes", "crashes", "keeper is killed"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
                           return name;
                         });

TEST_F(DescendantsTest, DescendantsEndWhenTheProgramOrTheForkServerIsKilled) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  for (const bool server : {false, true}) {
    SCOPED_TRACE(server);
    AllDescendants().count.store(0);
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t parent = fork();
    if (parent == 0) {
      const auto manager = Launched(1);
      const pid_t pid = ForkServerOf(Pids(manager.get())[0]);
      const bool started = Step(manager.get(), {kStartDescendants}).ok();
      if (!started || write(ready[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
      while (true) absl::SleepFor(absl::Seconds(1));
    }
    pid_t fork_server = 0;
    ASSERT_EQ(read(ready[0], &fork_server, sizeof(fork_server)), sizeof(fork_server));
    ASSERT_GT(fork_server, 0);
    ASSERT_EQ(AllDescendants().count.load(), 3);
    ASSERT_EQ(kill(server ? fork_server : parent, SIGKILL), 0);
    for (int i = 0; i < 3; ++i) {
      while (Exists(AllDescendants().pids[i].load())) {
        waitpid(AllDescendants().pids[i].load(), nullptr, WNOHANG);
        absl::SleepFor(absl::Milliseconds(1));
      }
    }
    kill(parent, SIGKILL);
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    close(ready[0]);
    close(ready[1]);
  }
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

TEST_F(SubprocessTest, TheManagerSaysThatItsForkServerIsGone) {
  const auto manager = Launched(1);
  const pid_t pid = Pids(manager.get())[0];
  const pid_t server = ForkServerOf(pid);
  ASSERT_EQ(ParentOf(server), getpid());
  ASSERT_EQ(kill(server, SIGKILL), 0);
  while (Exists(pid)) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(Step(manager.get(), {0}), IsInternal("fork server"));
}

}  // namespace
}  // namespace ding
