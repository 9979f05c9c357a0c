// The processes that run the envs of a manager (EnvProcessPool), and their time limits
// (ProcessDeadline). ProbeEnvSpec() gets the spec of an env from a process of its own.
//
// Threads: thread-compatible. EnvProcessPool::Create() and ProbeEnvSpec() fork, so call them before
//          the program starts threads: see ForkServer.
#ifndef DING_WORKER_ENV_PROCESS_ENV_PROCESS_POOL_H_
#define DING_WORKER_ENV_PROCESS_ENV_PROCESS_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process/env_process.h"
#include "ding_worker/env/process/fork_server.h"

namespace ding {

// The time limit of a process that runs envs: decides when to kill it.
//
//   Start ──► Watch, when the caller begins to wait ──► Check, while it waits ──► kKill ──► End
//
// The time restarts whenever the process makes progress. It is measured from the first wait that
// has to sleep, because a process may be slow while nobody waits for it. All times must come from
// one monotonic clock.
class ProcessDeadline {
 public:
  enum class Verdict { kInTime, kKill };
  // The limits; zero means none. connect_timeout bounds starting and building an env, reset_timeout
  // all calls that have no limit of their own. A pause before another attempt has no limit.
  struct Limits {
    absl::Duration connect_timeout;
    absl::Duration step_timeout;
    absl::Duration reset_timeout;
  };

  // Notes that the process is started. `progress` is the current value of its progress counter.
  void Start(absl::Time now, uint32_t progress);
  // Notes that the caller waits for the process from now on, unless it did before.
  void Watch(absl::Time now, uint32_t progress);
  // Returns kKill, once, if the process must be killed; kill_cause() then says why. `call` is the
  // process's current call.
  //   kInternal  the process was to be killed 5 seconds ago, but is still there
  absl::StatusOr<Verdict> Check(absl::Time now, uint32_t progress, EnvCall call,
                                const Limits& limits);
  // Notes that the process has ended.
  void End() { watched_ = false; }

  // Why the process is killed; OK if it is not.
  const absl::Status& kill_cause() const { return kill_cause_; }

 private:
  uint32_t progress_ = 0;  // the count that was seen last
  absl::Time since_;       // when its time began, or when the process was killed
  bool watched_ = false;   // whether the caller has begun to wait for the process
  absl::Status kill_cause_;
};

// The processes of a manager: assigns envs to processes, starts processes, limits their time, and
// reports how they ended.
//
//   AddCall(i)                  a request for process i is in the memory; starts the process if
//                               there is none
//   WatchTimes()                the caller begins to wait
//   CheckTime(i)                while the caller waits: kills a process that takes too long
//   HasEnded(i), TakeEnding(i)  the process ended, by itself or killed; the next AddCall() starts a
//                               new one
//
// The caller itself writes requests and reads answers in memory().
//
// Ownership: owns the memory that it shares with the processes, and the fork server. The destructor
//            ends all processes. A pool may be moved while its processes run; memory() stays where
//            it is.
// Errors:    kInternal if the fork server is gone or if a killed process does not end. A process
//            that ends is no error here: TakeEnding() says how it ended.
class EnvProcessPool {
 public:
  struct Options {
    int envs_per_process = 1;  // 0: as many as it takes to have one process per core
    // How much a process may allocate after its start; 0: no limit.
    int64_t memory_limit_mb = 0;
    ProcessDeadline::Limits limits = {};
    EnvRetryOptions retry;  // of the envs, in their processes
  };
  struct Ending {
    absl::Status cause;  // how the process ended, with its last lines; never OK
    // The env that the process called last; -1 if it ended before it called any.
    int env_id = -1;
    // The attempts at the last reset, including those of earlier processes; 0 if there was none.
    int attempts = 0;
  };

  // Runs in a process: serves requests until it is told to leave, and returns the exit code. It may
  // also replace the process by another program that does so.
  using Run = std::function<int(const EnvProcessOptions&)>;

  // Starts the fork server; a process starts with its first call. `env_num` must be at least 1, and
  // the envs that `run` serves must have the spec `spec`.
  //   kUnavailable  the system refuses processes or memory
  static absl::StatusOr<EnvProcessPool> Create(Options options, const EnvSpec& spec, int env_num,
                                               Run run);
  EnvProcessPool(EnvProcessPool&&) = default;
  EnvProcessPool& operator=(EnvProcessPool&&) = delete;
  ~EnvProcessPool() { EndAll(); }

  ProcessMemory* memory() { return memory_.get(); }
  int env_num() const { return env_num_; }
  int size() const { return static_cast<int>(processes_.size()); }
  // Whether there are more processes, with the caller's, than cores (SpinUntil).
  bool crowded() const { return crowded_; }

  int ProcessOf(int env_id) const { return env_id / envs_per_process_; }
  std::vector<int> EnvsOf(int i) const;

  // Counts a call that process i has to answer; starts the process if it is not there. Returns
  // whether it is the first since the last Wake(). The process then needs a Wake(): it may be
  // asleep although the caller has not taken all earlier answers.
  bool AddCall(int i) {
    Process& process = this->process(i);
    ++process.calls;
    if (!process.up) Start(i);
    return !std::exchange(process.to_wake, true);
  }
  // Call it when a call was answered, or the process ended before it answered.
  void RemoveCall(int i) { --process(i).calls; }

  // Tells process i that there are requests in the memory.
  void Wake(int i) {
    process(i).to_wake = false;
    ProcessMemory::Process& shared = memory_->process(i);
    shared.requests.fetch_add(1);
    if (shared.sleeping.load() != 0) FutexWake(&shared.requests);
  }

  // Call it when the caller begins to wait: starts to measure the time of processes with unanswered
  // calls, unless it is already measured.
  void WatchTimes();
  // Kills process i if it has calls to answer and has made no progress for longer than its limit
  // allows. `now` is a Now().
  absl::Status CheckTime(int i, absl::Time now);
  // The time of a monotonic clock.
  static absl::Time Now();

  // Whether process i has ended and TakeEnding() has not yet said how.
  bool HasEnded(int i) const {
    return processes_[static_cast<size_t>(i)].up && server_->state(i) == ForkServer::State::kEnded;
  }
  // Call it only if HasEnded(i). The next AddCall() starts a new process.
  Ending TakeEnding(int i);

  // OK while the fork server lives; without it no process can be started or killed.
  absl::Status Alive() const { return server_->Alive(); }

  // Ends all processes and forgets their calls: asks them to leave, and kills those that are in the
  // middle of a call or do not leave in time. They may be started again.
  void EndAll();

 private:
  struct Process {
    bool up = false;       // it was started, and its end was not yet taken
    int calls = 0;         // calls that it has to answer
    bool to_wake = false;  // some of them came after the last Wake()
    ProcessDeadline deadline;
  };

  EnvProcessPool(Options options, const EnvSpec& spec, int env_num, Run run, int envs_per_process,
                 std::unique_ptr<ProcessMemory> memory);

  Process& process(int i) { return processes_[static_cast<size_t>(i)]; }
  // Runs the envs of process i, in that process; returns its exit code.
  int RunProcess(int i) const;
  void Start(int i);

  // All but processes_ stay the same after Create(). They are not const because a pool can be
  // moved.
  Options options_;
  EnvSpec spec_;
  int env_num_;
  Run run_;
  int envs_per_process_;
  std::unique_ptr<ProcessMemory> memory_;
  std::vector<Process> processes_;
  bool crowded_;
  // It uses memory_, so it must be destroyed first. It is null after a move.
  std::unique_ptr<ForkServer> server_;
};

// A process runs RunEnvProcess() with the envs of these factories, one per env.
EnvProcessPool::Run RunFactories(std::vector<EnvFactory> factories);

// Builds an env in a process of its own, which then ends, and returns the spec of the env. So a
// crash or a hang of its code cannot harm this process.
//   kDeadlineExceeded  the env was not built within `timeout`
//   kUnavailable       its process died before, or the system refuses processes or memory
//   other              the error of the factory
absl::StatusOr<EnvSpec> ProbeEnvSpec(const EnvFactory& factory, absl::Duration timeout);
// Does the same for an env that is not built by a factory. `run` is called in the process; it
// leaves a message for env 0 that holds a status and, if it is OK, the spec and further bytes, and
// returns 0. `rest`, if not null, gets these bytes.
absl::StatusOr<EnvSpec> ProbeEnvSpec(const std::function<int(ProcessMemory*)>& run,
                                     absl::Duration timeout, std::string* rest);

// Whether this process was started by ProbeEnvSpec() to build an env.
bool InEnvProbe();

}  // namespace ding

#endif  // DING_WORKER_ENV_PROCESS_ENV_PROCESS_POOL_H_
