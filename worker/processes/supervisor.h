// Runs worker processes on this machine: the supervisor, which replaces those that end, and in each
// worker the watch that ends it if the supervisor dies.
#ifndef DING_WORKER_WORKER_PROCESSES_SUPERVISOR_H_
#define DING_WORKER_WORKER_PROCESSES_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"

namespace ding {

// Exit statuses of the programs other than 0 (the run came to its end), 1 (an error) and 128 +
// signal.

// The run came to its end, but could not save its last checkpoints or the data that it needs to
// continue. The data stay where they are.
inline constexpr int kUnsavedStatus = 3;
// A worker process that was started by a supervisor has done its work: the run is over, or the
// coordinator let it go. If such a process ends with 0 instead, something in it ended it, such as
// an env that calls _exit(0).
inline constexpr int kGoodbyeStatus = 66;

// "exit status 1", "signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);

// Starts worker processes, replaces each one that ends, and ends all of them.
//
// Ownership: owns its processes. If the supervising process dies, they notice and end
// (OrphanWatch).
// Threads:   thread-compatible.
// Errors:    if a worker keeps ending soon after its start, an error names it and how it ended.
class Supervisor {
 public:
  struct Worker {
    std::string name;                    // shown to people; unique
    std::vector<std::string> arguments;  // for the program
    // Arguments of processes that replace one that ended; empty: the same arguments.
    std::vector<std::string> arguments_again;
    // The kind of exit that means that the worker is done and is not replaced: no exit; an exit
    // with kGoodbyeStatus; or an exit with any status, that is, not by a signal.
    enum class Done { kNever, kWithGoodbye, kWithAnyStatus };
    Done done = Done::kNever;
  };
  struct Options {
    std::string program;       // path
    std::string program_name;  // argv[0] of the processes; empty: the path
    // A worker process that ends sooner than this after its start counts as failed.
    absl::Duration short_life = absl::Seconds(2);
    // After this many failures in a row the worker is given up. At least 1.
    int max_failures = 5;
    const Clock* clock = Clock::Real();
  };

  explicit Supervisor(Options options);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();  // as Stop(), but kills at once

  absl::Status Start(const Worker& worker);

  // Replaces each process that has ended and whose worker is not done; to be called now and then.
  absl::Status Restart();

  // Gives up the process `pid`, whose session is over, and starts another one in its place, as if
  // it had ended. If it is still alive, it is left to end by itself until Stop(). Has no effect if
  // it is not a process of this supervisor.
  absl::Status Replace(pid_t pid);

  // Sends the signal to all processes except the one of the worker `except`, to end them. A worker
  // of kind Done::kWithGoodbye that ends from now on is done, however it ends.
  void Interrupt(int signal, absl::string_view except);

  // Whether a process has ended that Restart() has not handled yet.
  bool SomebodyHasEnded() const;

  // Whether there is a worker of this name that is not done.
  bool Has(const std::string& name) const;
  // Names of the workers, in the order of their start.
  std::vector<std::string> names() const;
  // The pid of the worker's current process.
  std::optional<pid_t> PidOf(const std::string& name) const;
  // The exit status with which the last worker of this name was done.
  std::optional<int> DoneWith(const std::string& name) const;

  // Waits until all processes have ended by themselves, and kills those that are left after
  // `timeout`.
  void Stop(absl::Duration timeout);

  // The pids of the workers' current processes, in the order of their start; 0: the worker has
  // none.
  std::vector<pid_t> pids() const;
  int64_t restarts() const { return restarts_; }

 private:
  struct Process {
    Worker worker;
    pid_t pid = 0;  // 0: there is no process
    int64_t started_nanos = 0;
    int failures = 0;  // in a row
    bool started_before = false;
  };

  // Whether a process that ended with `wait_status` has done its work; records its exit status if
  // so.
  bool IsDone(const Process& process, int wait_status);

  absl::Status Spawn(Process* process);
  // Replaces a process; `ended` describes how the old one ended.
  absl::Status StartAgain(absl::string_view ended, Process* process);

  const Options options_;
  std::vector<Process> processes_;
  std::vector<pid_t> given_up_;
  std::map<std::string, int> done_;  // exit status, by name
  bool interrupted_ = false;
  int64_t restarts_ = 0;
};

// Ends a worker process whose supervisor has died and that has nothing left to work for, because
// its session is over or has not begun. Such a worker ends by itself as soon as it checks its
// session. But it may be blocked in a wait for a connection, for a group of learners or for a
// user's env, and no supervisor is left to kill it.
//
// Ownership: owns its thread, which the destructor joins.
// Threads:   thread-safe.
class OrphanWatch {
 public:
  struct Options {
    // Polled: whether the supervisor is alive, or there never was one.
    std::function<bool()> supervisor_lives;
    // How long the process has to end by itself. Beyond the 5 s that an aggregator gives its
    // learners.
    absl::Duration patience = absl::Seconds(7);
  };

  OrphanWatch() = default;
  OrphanWatch(const OrphanWatch&) = delete;
  OrphanWatch& operator=(const OrphanWatch&) = delete;
  ~OrphanWatch();

  // Starts to watch. To be called once. kResourceExhausted if the system refuses a thread.
  absl::Status Start(Options options);

  // Sets how to ask whether the session that the process works for is open; null: it has none.
  // `is_open` is called until the next call of SetSession() and not later.
  void SetSession(std::function<bool()> is_open);

 private:
  void Watch();
  bool IsOrphan();

  Options options_;
  Mutex mutex_;
  std::function<bool()> session_is_open_ ABSL_GUARDED_BY(mutex_);
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROCESSES_SUPERVISOR_H_
