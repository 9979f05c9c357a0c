#include "ding_worker/env/process/env_process_pool.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process/env_process.h"
#include "ding_worker/env/process/fork_server.h"
#include "ding_worker/env/process/process_message.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

constexpr int kStartExitCode = 4;
constexpr absl::Duration kLongEnough = absl::Seconds(50);  // for everything that a test waits for
constexpr absl::StatusCode kNoAnswer = absl::StatusCode::kAborted;

// What an env can be told to do, by its action or by the seed of its reset.
enum Behavior : int64_t {
  kNothing,
  kExit,
  kSegfault,
  kKillItself,
  kEatMemory,
  kHang,
  kNumBehaviors
};

// State that the test and all processes share.
struct Shared {
  std::atomic<int> env_hosts{0};  // how many envs the processes were started for
  std::atomic<bool> fail_starts{false};
};
Shared& SharedByAll() {
  static auto* const shared =
      new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Shared();
  return *shared;
}

void Behave(int64_t behavior) {
  if (behavior == kNothing) return;
  std::fprintf(stderr, "line 1\nlast words\n");
  switch (behavior) {
    case kExit:
      _exit(3);
    case kSegfault:
      signal(SIGSEGV, SIG_DFL);  // A sanitizer has a handler of its own.
      raise(SIGSEGV);
      break;
    case kKillItself:
      raise(SIGKILL);
      break;
    case kEatMemory:
      for (std::vector<std::unique_ptr<char[]>> eaten; eaten.size() < 4096;) {
        eaten.push_back(std::make_unique<char[]>(1 << 20));
      }
      break;
    default:
      while (true) absl::SleepFor(absl::Seconds(1));
  }
}

EnvSpec TestSpec(int64_t observation_size = 2) {
  EnvSpec spec;
  spec.name = "Test";
  spec.observation = MakeSpec({Box("obs", {observation_size})}).value();
  spec.action = MakeSpec({Discrete("action", kNumBehaviors)}).value();
  return spec;
}

// The observation is {its process, step of the episode}.
class TestEnv : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    Behave(static_cast<int64_t>(start.seed));
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

  const EnvSpec spec_ = TestSpec();
  int step_ = 0;
};

// A process copies the factories of its envs when it starts, before it waits for calls. So the copy
// can make the process die at its start.
class TestEnvFactory {
 public:
  TestEnvFactory() = default;
  TestEnvFactory(const TestEnvFactory& other) : made_in_(other.made_in_) {
    if (getpid() == made_in_) return;
    SharedByAll().env_hosts.fetch_add(1);
    if (SharedByAll().fail_starts.load()) _exit(kStartExitCode);
  }
  absl::StatusOr<std::unique_ptr<Env>> operator()() const { return std::make_unique<TestEnv>(); }

 private:
  const pid_t made_in_ = getpid();
};

// A process that was reaped does not exist.
bool Exists(pid_t pid) { return kill(pid, 0) == 0; }

template <typename Done>
bool WaitFor(const Done& done) {
  const Deadline deadline = Deadline::After(kLongEnough);
  while (!done()) {
    if (deadline.Passed()) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// The soft limit of open files is `limit` as long as this object lives.
class FileLimit {
 public:
  explicit FileLimit(int limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit lower = before_;
    lower.rlim_cur = static_cast<rlim_t>(limit);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~FileLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

  // Returns the limit with which exactly `count` more files can be opened.
  static int ForFiles(int count) {
    std::vector<int> files(static_cast<size_t>(count));
    for (int& file : files) file = dup(STDERR_FILENO);
    const int last = *std::max_element(files.begin(), files.end());
    EXPECT_GE(*std::min_element(files.begin(), files.end()), 0);
    for (const int file : files) close(file);
    return last + 1;
  }

 private:
  rlimit before_ = {};
};

class EnvProcessPoolTest : public testing::Test {
 protected:
  EnvProcessPoolTest() {
    SharedByAll().env_hosts.store(0);
    SharedByAll().fail_starts.store(false);
    options_.retry.retry_waiting_time = absl::ZeroDuration();
  }

  absl::StatusOr<EnvProcessPool> TryCreate(int env_num) {
    return EnvProcessPool::Create(options_, spec_, env_num,
                                  RunFactories(std::vector<EnvFactory>(env_num, TestEnvFactory())));
  }
  EnvProcessPool Create(int env_num, int envs_per_process = 1) {
    options_.envs_per_process = envs_per_process;
    return TryCreate(env_num).value();
  }

  // Asks the env as a manager does.
  static void Ask(EnvProcessPool* pool, int env_id, EnvCall call, Behavior behavior = kNothing,
                  int attempts_made = 0) {
    ProcessMemory::Env& env = pool->memory()->env(env_id);
    env.call = static_cast<uint32_t>(call);
    env.attempts_made = attempts_made;
    env.seed = static_cast<uint64_t>(behavior);
    env.message_size = 0;
    pool->memory()->actions().row(env_id).field<int64_t>(0)[0] = behavior;
    env.turn.store(ProcessMemory::kAsked);
    const int i = pool->ProcessOf(env_id);
    if (pool->AddCall(i)) pool->Wake(i);
  }
  // Waits for the answer of the env and returns its status; kNoAnswer if its process ended instead.
  static absl::Status TakeAnswer(EnvProcessPool* pool, int env_id) {
    ProcessMemory::Env& env = pool->memory()->env(env_id);
    const int i = pool->ProcessOf(env_id);
    bool ended = false;
    const bool over = WaitFor([&] {
      ended = pool->HasEnded(i);
      return ended || env.turn.load() == ProcessMemory::kAnswered;
    });
    if (!over) return absl::DeadlineExceededError("the process neither answers nor ends");
    if (env.turn.load() != ProcessMemory::kAnswered)
      return absl::Status(kNoAnswer, "the process has ended");
    env.turn.store(ProcessMemory::kIdle);
    pool->RemoveCall(i);
    if (env.message_size == 0) return absl::OkStatus();
    ProcessMessageReader message(pool->memory()->message(env_id));
    return TakeStatus(&message);
  }
  static absl::Status Call(EnvProcessPool* pool, int env_id, EnvCall call,
                           Behavior behavior = kNothing, int attempts_made = 0) {
    Ask(pool, env_id, call, behavior, attempts_made);
    return TakeAnswer(pool, env_id);
  }
  // Waits until process i has ended, and gives up the calls that it has not answered.
  static EnvProcessPool::Ending TakeEnding(EnvProcessPool* pool, int i) {
    if (!WaitFor([&] { return pool->HasEnded(i); })) {
      ADD_FAILURE() << "process " << i << " does not end";
      return {};
    }
    for (const int env_id : pool->EnvsOf(i)) {
      std::atomic<uint32_t>& turn = pool->memory()->env(env_id).turn;
      if (turn.exchange(ProcessMemory::kIdle) != ProcessMemory::kIdle) pool->RemoveCall(i);
    }
    return pool->TakeEnding(i);
  }
  // Makes the env hang in a call; returns when the env is in it.
  static void Hang(EnvProcessPool* pool, int env_id, EnvCall call) {
    const ProcessMemory::Process& process = pool->memory()->process(pool->ProcessOf(env_id));
    const uint32_t progress = process.progress.load();
    // A process that is there makes one step of progress at a step, and two at a reset.
    const uint32_t expected = progress + (call == EnvCall::kStep ? 1 : 2);
    Ask(pool, env_id, call, kHang);
    EXPECT_TRUE(WaitFor([&] { return process.progress.load() == expected; }));
  }

  static pid_t Pid(EnvProcessPool* pool, int env_id) {
    return static_cast<pid_t>(pool->memory()->rows().row(env_id).field<float>(0)[0]);
  }
  static int StepOf(EnvProcessPool* pool, int env_id) {
    return static_cast<int>(pool->memory()->rows().row(env_id).field<float>(0)[1]);
  }

  EnvSpec spec_ = TestSpec();
  EnvProcessPool::Options options_;
};

// Starting.

TEST_F(EnvProcessPoolTest, AProcessStartsWithItsFirstCall) {
  EnvProcessPool pool = Create(2);
  EXPECT_EQ(pool.size(), 2);
  EXPECT_EQ(pool.env_num(), 2);
  ASSERT_THAT(Call(&pool, 1, EnvCall::kReset), IsOk());
  EXPECT_EQ(SharedByAll().env_hosts.load(), 1);
  const pid_t pid = Pid(&pool, 1);
  EXPECT_NE(pid, getpid());
  ASSERT_THAT(Call(&pool, 1, EnvCall::kStep), IsOk());
  EXPECT_EQ(Pid(&pool, 1), pid);
  EXPECT_EQ(StepOf(&pool, 1), 1);
  EXPECT_EQ(SharedByAll().env_hosts.load(), 1) << "the second call needs no further process";

  ASSERT_THAT(Call(&pool, 0, EnvCall::kReset), IsOk());
  EXPECT_EQ(SharedByAll().env_hosts.load(), 2);
  EXPECT_NE(Pid(&pool, 0), pid);
  EXPECT_FALSE(pool.HasEnded(0));
  EXPECT_FALSE(pool.HasEnded(1));
  EXPECT_THAT(pool.Alive(), IsOk());
}

TEST_F(EnvProcessPoolTest, AProcessRunsSeveralEnvs) {
  EnvProcessPool pool = Create(5, /*envs_per_process=*/2);
  EXPECT_EQ(pool.size(), 3);
  EXPECT_THAT(pool.EnvsOf(0), ElementsAre(0, 1));
  EXPECT_THAT(pool.EnvsOf(2), ElementsAre(4));
  EXPECT_EQ(pool.ProcessOf(1), 0);
  EXPECT_EQ(pool.ProcessOf(4), 2);
  for (const int env_id : {0, 1, 4}) Ask(&pool, env_id, EnvCall::kReset);
  for (const int env_id : {0, 1, 4}) ASSERT_THAT(TakeAnswer(&pool, env_id), IsOk());
  EXPECT_EQ(Pid(&pool, 0), Pid(&pool, 1));
  EXPECT_NE(Pid(&pool, 0), Pid(&pool, 4));
  ASSERT_THAT(Call(&pool, 0, EnvCall::kStep), IsOk());
  ASSERT_THAT(Call(&pool, 0, EnvCall::kStep), IsOk());
  ASSERT_THAT(Call(&pool, 1, EnvCall::kStep), IsOk());
  EXPECT_EQ(StepOf(&pool, 0), 2);
  EXPECT_EQ(StepOf(&pool, 1), 1);
}

TEST_F(EnvProcessPoolTest, TheFirstCallAfterAWakeNeedsAnother) {
  EnvProcessPool pool = Create(2, /*envs_per_process=*/2);
  EXPECT_TRUE(pool.AddCall(0));
  EXPECT_FALSE(pool.AddCall(0));
  pool.Wake(0);
  pool.RemoveCall(0);
  // The other one may be answered already, and the process asleep.
  EXPECT_TRUE(pool.AddCall(0));
  pool.Wake(0);
  pool.RemoveCall(0);
  pool.RemoveCall(0);
  EXPECT_TRUE(pool.AddCall(0));
}

TEST_F(EnvProcessPoolTest, ZeroEnvsPerProcessMeansAProcessPerCore) {
  const int cores = UsableCores();
  EnvProcessPool pool = Create(2 * cores + 1, /*envs_per_process=*/0);
  EXPECT_LE(pool.size(), cores);
  int env_id = 0;
  for (int i = 0; i < pool.size(); ++i) {
    for (const int its_env : pool.EnvsOf(i)) {
      EXPECT_EQ(its_env, env_id++);
      EXPECT_EQ(pool.ProcessOf(its_env), i);
    }
  }
  EXPECT_EQ(env_id, pool.env_num());
  EXPECT_TRUE(Create(cores).crowded()) << "with the caller's there are more processes than cores";
  EXPECT_EQ(Create(1).crowded(), cores == 1);
}

TEST_F(EnvProcessPoolTest, Create_AffinityOfOneCore_MakesOneProcess) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(Create(5, /*envs_per_process=*/0).size(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

TEST_F(EnvProcessPoolTest, APoolMayBeMovedWhileItsProcessesRun) {
  EnvProcessPool before = Create(2);
  ASSERT_THAT(Call(&before, 0, EnvCall::kReset), IsOk());
  const pid_t pid = Pid(&before, 0);
  ProcessMemory* const memory = before.memory();
  {
    EnvProcessPool pool = std::move(before);
    EXPECT_EQ(pool.memory(), memory);
    ASSERT_THAT(Call(&pool, 0, EnvCall::kStep), IsOk());
    EXPECT_EQ(Pid(&pool, 0), pid);
    ASSERT_THAT(Call(&pool, 1, EnvCall::kReset), IsOk());
  }
  EXPECT_FALSE(Exists(pid));
}

// Processes that end.

struct EndingCase {
  const char* name;
  Behavior behavior;
  absl::StatusCode code;
  const char* how;
};

class EnvProcessPoolEndingTest : public EnvProcessPoolTest,
                                 public testing::WithParamInterface<EndingCase> {};

TEST_P(EnvProcessPoolEndingTest, TheEndIsReportedAndTheProcessReplaced) {
  options_.memory_limit_mb = GetParam().behavior == kEatMemory ? 64 : 0;
  EnvProcessPool pool = Create(4, /*envs_per_process=*/2);
  for (const int env_id : {0, 1, 2, 3}) ASSERT_THAT(Call(&pool, env_id, EnvCall::kReset), IsOk());
  const pid_t ended = Pid(&pool, 0);
  const pid_t other = Pid(&pool, 2);

  EXPECT_THAT(Call(&pool, 0, EnvCall::kStep, GetParam().behavior), StatusIs(kNoAnswer));
  EXPECT_FALSE(Exists(ended));
  const EnvProcessPool::Ending ending = TakeEnding(&pool, 0);
  EXPECT_THAT(ending.cause, IsError(GetParam().code, GetParam().how, "line 1\nlast words"));
  EXPECT_EQ(ending.env_id, 0);
  EXPECT_EQ(ending.attempts, 1) << "at the last reset, which was that of env 1";
  EXPECT_FALSE(pool.HasEnded(0)) << "the end is reported once";

  ASSERT_THAT(Call(&pool, 2, EnvCall::kStep), IsOk());
  EXPECT_EQ(Pid(&pool, 2), other);
  EXPECT_EQ(StepOf(&pool, 2), 1);
  for (const int env_id : {0, 1}) {
    ASSERT_THAT(Call(&pool, env_id, EnvCall::kReset), IsOk());
    ASSERT_THAT(Call(&pool, env_id, EnvCall::kStep), IsOk());
    EXPECT_EQ(StepOf(&pool, env_id), 1);
  }
  EXPECT_NE(Pid(&pool, 0), ended);
  EXPECT_EQ(Pid(&pool, 0), Pid(&pool, 1));
}

constexpr EndingCase kEndingCases[] = {
    {"Exit", kExit, absl::StatusCode::kUnavailable, "its process exited with code 3"},
    {"Segfault", kSegfault, absl::StatusCode::kUnavailable, "its process was killed by signal 11"},
    {"Kill", kKillItself, absl::StatusCode::kUnavailable, "its process was killed by signal 9"},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // The sanitizers' allocators know no new_handler.
    {"EatMemory", kEatMemory, absl::StatusCode::kResourceExhausted,
     "its process passed memory_limit_mb (64)"},
#endif
};
INSTANTIATE_TEST_SUITE_P(Endings, EnvProcessPoolEndingTest, testing::ValuesIn(kEndingCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(EnvProcessPoolTest, AnEndDuringAResetCountsTheAttemptsOfEarlierProcesses) {
  options_.retry.max_retry = 3;
  EnvProcessPool pool = Create(2);
  EXPECT_THAT(Call(&pool, 1, EnvCall::kReset, kExit), StatusIs(kNoAnswer));
  EnvProcessPool::Ending ending = TakeEnding(&pool, 1);
  EXPECT_EQ(ending.env_id, 1);
  EXPECT_EQ(ending.attempts, 1);
  EXPECT_THAT(Call(&pool, 1, EnvCall::kReset, kExit, /*attempts_made=*/1), StatusIs(kNoAnswer));
  ending = TakeEnding(&pool, 1);
  EXPECT_EQ(ending.env_id, 1);
  EXPECT_EQ(ending.attempts, 2);
  EXPECT_THAT(Call(&pool, 1, EnvCall::kReset, kNothing, /*attempts_made=*/2), IsOk());
}

TEST_F(EnvProcessPoolTest, AnIdleProcessThatIsKilledIsReplaced) {
  EnvProcessPool pool = Create(2, /*envs_per_process=*/2);
  for (const int env_id : {0, 1}) ASSERT_THAT(Call(&pool, env_id, EnvCall::kReset), IsOk());
  const pid_t pid = Pid(&pool, 0);
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  const EnvProcessPool::Ending ending = TakeEnding(&pool, 0);
  EXPECT_THAT(ending.cause, IsUnavailable("was killed by signal 9"));
  EXPECT_EQ(ending.env_id, 1) << "the env that it called last";
  ASSERT_THAT(Call(&pool, 0, EnvCall::kReset), IsOk());
  EXPECT_NE(Pid(&pool, 0), pid);
}

TEST_F(EnvProcessPoolTest, AReplacementThatEndsAtItsStartIsNotReportedWithTheEnvOfItsPredecessor) {
  EnvProcessPool pool = Create(2, /*envs_per_process=*/2);
  ASSERT_THAT(Call(&pool, 1, EnvCall::kReset), IsOk());
  EXPECT_THAT(Call(&pool, 1, EnvCall::kStep, kExit), StatusIs(kNoAnswer));
  EnvProcessPool::Ending ending = TakeEnding(&pool, 0);
  EXPECT_EQ(ending.env_id, 1);
  EXPECT_EQ(ending.attempts, 1);

  SharedByAll().fail_starts.store(true);
  EXPECT_THAT(Call(&pool, 0, EnvCall::kReset), StatusIs(kNoAnswer));
  ending = TakeEnding(&pool, 0);
  EXPECT_THAT(ending.cause, IsUnavailable("exited with code 4"));
  EXPECT_EQ(ending.env_id, -1) << "it called no env";
  EXPECT_EQ(ending.attempts, 0);

  SharedByAll().fail_starts.store(false);
  EXPECT_THAT(Call(&pool, 0, EnvCall::kReset), IsOk());
}

// UndefinedBehaviorSanitizer opens a pipe to look at an object, which the limit of this test
// refuses.
#ifndef __SANITIZE_ADDRESS__
TEST_F(EnvProcessPoolTest, AProcessThatTheSystemRefusesIsReportedAsEnded) {
  // The shared memory is a file and the fork server opens two, so none is left for the stderr of a
  // process.
  auto limit = std::make_unique<FileLimit>(FileLimit::ForFiles(3));
  absl::StatusOr<EnvProcessPool> pool = TryCreate(1);
  limit.reset();
  ASSERT_THAT(pool, IsOk());
  EXPECT_THAT(Call(&*pool, 0, EnvCall::kReset), StatusIs(kNoAnswer));
  const EnvProcessPool::Ending ending = TakeEnding(&*pool, 0);
  EXPECT_THAT(ending.cause, IsUnavailable("its process could not be started: Too many open files"));
  EXPECT_EQ(ending.env_id, -1);
}
#endif

// Processes that take too long.

TEST_F(EnvProcessPoolTest, AProcessIsKilledWhenItsCallTakesTooLong) {
  options_.limits.step_timeout = absl::Minutes(2);
  options_.limits.reset_timeout = absl::Minutes(4);
  for (const EnvCall call : {EnvCall::kStep, EnvCall::kReset}) {
    EnvProcessPool pool = Create(1);
    ASSERT_THAT(Call(&pool, 0, EnvCall::kReset), IsOk());
    Hang(&pool, 0, call);
    pool.WatchTimes();
    const absl::Time now = EnvProcessPool::Now();
    const absl::Duration limit =
        call == EnvCall::kStep ? options_.limits.step_timeout : options_.limits.reset_timeout;
    EXPECT_THAT(pool.CheckTime(0, now + limit - absl::Minutes(1)), IsOk());
    EXPECT_TRUE(Exists(Pid(&pool, 0)));
    EXPECT_THAT(pool.CheckTime(0, now + limit + absl::Minutes(1)), IsOk());
    const EnvProcessPool::Ending ending = TakeEnding(&pool, 0);
    EXPECT_THAT(
        ending.cause,
        IsError(absl::StatusCode::kDeadlineExceeded,
                call == EnvCall::kStep ? "did not finish a step in 2m (step_timeout) and was killed"
                                       : "did not finish a reset in 4m (reset_timeout) and was"));
    EXPECT_EQ(ending.env_id, 0);
    EXPECT_FALSE(Exists(Pid(&pool, 0)));
    EXPECT_THAT(Call(&pool, 0, EnvCall::kReset), IsOk());
  }
}

TEST_F(EnvProcessPoolTest, AProcessWithoutCallsHasNoTimeLimit) {
  options_.limits = {absl::Minutes(1), absl::Minutes(1), absl::Minutes(1)};
  EnvProcessPool pool = Create(2);
  ASSERT_THAT(Call(&pool, 0, EnvCall::kReset), IsOk());
  const absl::Time later = EnvProcessPool::Now() + absl::Hours(1);
  for (const int i : {0, 1}) {
    pool.WatchTimes();
    EXPECT_THAT(pool.CheckTime(i, later), IsOk());
    EXPECT_THAT(pool.CheckTime(i, later + absl::Hours(1)), IsOk());
  }
  EXPECT_THAT(Call(&pool, 0, EnvCall::kStep), IsOk());
}

TEST_F(EnvProcessPoolTest, AKilledProcessThatDoesNotEndIsAnError) {
  options_.limits.step_timeout = absl::Minutes(1);
  EnvProcessPool pool = Create(1);
  ASSERT_THAT(Call(&pool, 0, EnvCall::kReset), IsOk());
  Hang(&pool, 0, EnvCall::kStep);
  pool.WatchTimes();
  const absl::Time killed = EnvProcessPool::Now() + absl::Minutes(2);
  EXPECT_THAT(pool.CheckTime(0, killed), IsOk());
  // As long as nobody takes its end, it counts as still there.
  EXPECT_THAT(pool.CheckTime(0, killed + absl::Seconds(4)), IsOk());
  EXPECT_THAT(pool.CheckTime(0, killed + absl::Seconds(6)), IsInternal("is still there"));
}

// The end of the pool.

TEST_F(EnvProcessPoolTest, EndAllEndsProcessesAndTheyMayBeStartedAgain) {
  EnvProcessPool pool = Create(4);
  for (const int env_id : {0, 1, 2}) ASSERT_THAT(Call(&pool, env_id, EnvCall::kReset), IsOk());
  std::vector<pid_t> pids;
  for (const int env_id : {0, 1, 2}) pids.push_back(Pid(&pool, env_id));
  Hang(&pool, 1, EnvCall::kStep);
  ASSERT_EQ(kill(pids[2], SIGKILL), 0);
  ASSERT_TRUE(WaitFor([&] { return pool.HasEnded(2); }));

  pool.EndAll();
  for (const pid_t pid : pids) EXPECT_FALSE(Exists(pid));
  for (const int i : {0, 1, 2, 3}) EXPECT_FALSE(pool.HasEnded(i));
  for (const int env_id : {0, 1, 2, 3}) {
    ASSERT_THAT(Call(&pool, env_id, EnvCall::kReset), IsOk());
    ASSERT_THAT(Call(&pool, env_id, EnvCall::kStep), IsOk());
  }
  EXPECT_NE(Pid(&pool, 1), pids[1]);
}

TEST_F(EnvProcessPoolTest, ProcessesEndWithThePool) {
  std::vector<pid_t> pids;
  {
    EnvProcessPool pool = Create(2);
    for (const int env_id : {0, 1}) {
      ASSERT_THAT(Call(&pool, env_id, EnvCall::kReset), IsOk());
      pids.push_back(Pid(&pool, env_id));
    }
    Hang(&pool, 1, EnvCall::kReset);
  }
  for (const pid_t pid : pids) EXPECT_FALSE(Exists(pid));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "a zombie or a process is left";
}

TEST_F(EnvProcessPoolTest, ProcessesEndWithAProgramThatIsKilled) {
  // This process adopts those that the program leaves behind.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t program = fork();
  if (program == 0) {
    EnvProcessPool pool = Create(2);
    for (const int env_id : {0, 1}) {
      if (!Call(&pool, env_id, EnvCall::kReset).ok()) _exit(1);
    }
    Hang(&pool, 1, EnvCall::kStep);
    const pid_t pids[2] = {Pid(&pool, 0), Pid(&pool, 1)};
    if (write(ready[1], pids, sizeof(pids)) != sizeof(pids)) _exit(1);
    while (true) absl::SleepFor(absl::Seconds(1));
  }
  close(ready[1]);
  pid_t pids[2] = {0, 0};
  ASSERT_EQ(read(ready[0], pids, sizeof(pids)), static_cast<ssize_t>(sizeof(pids)));
  EXPECT_TRUE(Exists(pids[0]) && Exists(pids[1]));
  ASSERT_EQ(kill(program, SIGKILL), 0);
  // The timeout of the test bounds this wait.
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  EXPECT_EQ(errno, ECHILD);
  EXPECT_FALSE(Exists(pids[0]) || Exists(pids[1]));
  close(ready[0]);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

// Errors.

// UndefinedBehaviorSanitizer opens a pipe to look at an object, which the limit of this test
// refuses.
#ifndef __SANITIZE_ADDRESS__
TEST_F(EnvProcessPoolTest, APoolThatTheSystemRefusesIsUnavailable) {
  {
    const FileLimit limit(FileLimit::ForFiles(1));  // the shared memory
    EXPECT_THAT(TryCreate(1), IsUnavailable("fork server"));
  }
  // 512 TiB, which are more than a process can address.
  spec_ = TestSpec(int64_t{1} << 38);
  EXPECT_THAT(TryCreate(512), IsUnavailable("shared memory"));
}
#endif

TEST_F(EnvProcessPoolTest, AnEnvOfAnotherSpecIsAnErrorOfItsReset) {
  spec_ = TestSpec(/*observation_size=*/3);
  EnvProcessPool pool = Create(1);
  EXPECT_THAT(Call(&pool, 0, EnvCall::kReset), IsInvalid("its spec differs"));
  EXPECT_FALSE(pool.HasEnded(0));
}

TEST(ForkServerTest, Spawn_Stdin_IsEmpty) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);  // Nobody writes: a process that reads it would wait for ever.
  ForkServer::Options options;
  options.run = [](int) {
    char byte;
    return getsid(0) != getpid() && read(STDIN_FILENO, &byte, 1) == 0 ? 7 : 1;
  };
  const std::unique_ptr<ForkServer> server = ForkServer::Start(std::move(options)).value();
  ASSERT_THAT(server->Spawn(0), IsOk());
  EXPECT_TRUE(server->WaitForEnd(0, absl::Seconds(20)));
  EXPECT_EQ(WEXITSTATUS(server->wait_status(0)), 7);
  dup2(before, STDIN_FILENO);
  for (const int file : {before, ends[0], ends[1]}) close(file);
}

// Linux may schedule each session as a group (sched_autogroup): processes of another session would
// get their turns late.
TEST(ForkServerTest, Spawn_WithATerminal_LeavesItAndStaysInTheSession) {
  const pid_t with_terminal = fork();
  if (with_terminal == 0) {
    setsid();
    const int pseudo_terminal = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(pseudo_terminal);
    unlockpt(pseudo_terminal);
    const bool has_terminal =
        open(ptsname(pseudo_terminal), O_RDWR) >= 0 && open("/dev/tty", O_RDWR) >= 0;
    ForkServer::Options options;
    options.run = [session = getsid(0)](int) {
      return getsid(0) == session && open("/dev/tty", O_RDWR) < 0 ? 7 : 1;
    };
    const std::unique_ptr<ForkServer> server = ForkServer::Start(std::move(options)).value();
    const bool ended = server->Spawn(0).ok() && server->WaitForEnd(0, absl::Seconds(20));
    _exit(has_terminal && ended && WEXITSTATUS(server->wait_status(0)) == 7 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(with_terminal, &status, 0), with_terminal);
  EXPECT_EQ(status, 0);
}

TEST_F(EnvProcessPoolTest, ASignalIsNotTheEndOfTheForkServer) {
  const EnvProcessPool pool = Create(1);
  signal(SIGALRM, [](int) {});
  ualarm(50, 50);
  absl::Status alive;
  for (int i = 0; i < 200'000; ++i) alive.Update(pool.Alive());
  ualarm(0, 0);
  EXPECT_THAT(alive, IsOk());
}

TEST_F(EnvProcessPoolTest, WithoutItsForkServerThePoolCanNeitherStartNorKill) {
  options_.limits.connect_timeout = absl::Minutes(1);
  EnvProcessPool pool = Create(2);
  ASSERT_THAT(Call(&pool, 0, EnvCall::kReset), IsOk());
  // The server is the only child.
  std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
  pid_t server = 0;
  children >> server;
  if (server == 0) GTEST_SKIP() << "the system does not list children";
  ASSERT_EQ(kill(server, SIGKILL), 0);
  ASSERT_TRUE(WaitFor([&] { return !pool.Alive().ok(); }));
  EXPECT_THAT(pool.Alive(), IsInternal("is gone"));
  EXPECT_TRUE(WaitFor([&] { return !Exists(Pid(&pool, 0)); }));

  Ask(&pool, 1, EnvCall::kReset);
  EXPECT_THAT(pool.CheckTime(1, EnvProcessPool::Now() + absl::Minutes(2)),
              IsInternal("does not take requests"));
  EXPECT_FALSE(pool.HasEnded(1));
}

}  // namespace
}  // namespace ding
