// Worker processes on this machine: starts them, starts another in the place of one that ends, and
// ends all.
//
// Ownership: owns its processes. Should it die itself, they notice and end.
// Threads:   thread-compatible.
// Errors:    a worker that keeps ending soon after its start is an error that names it and how it
//            ended.
#ifndef DING_WORKER_WORKER_SUPERVISOR_H_
#define DING_WORKER_WORKER_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"

namespace ding {

class Supervisor {
 public:
  struct Worker {
    std::string name;                    // for people; unique
    std::vector<std::string> arguments;  // of the program
    // For those processes that are started in the place of one that ended; empty: the same.
    std::vector<std::string> arguments_again;
    // Which of its processes has done its work, and has no successor: none, one that ends with
    // kGoodbyeStatus (exit_status.h), or one that ends with any exit status, that is, not by a signal.
    enum class Done { kNever, kWithGoodbye, kWithAnyStatus };
    Done done = Done::kNever;
  };
  struct Options {
    std::string program;       // path
    std::string program_name;  // as it is told; empty: the path
    // A worker that ends sooner than that counts as failed,
    absl::Duration short_life = absl::Seconds(2);
    // and after so many failures in a row is given up. At least 1.
    int max_failures = 5;
    const Clock* clock = Clock::Real();
  };

  explicit Supervisor(Options options);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();  // as Stop(), without waiting for anybody

  absl::Status Start(const Worker& worker);

  // Starts another process in the place of each one that has ended and is not done; to be called now
  // and then.
  absl::Status Restart();

  // The process `pid` has been given up (its session is over): starts another one in its place, as if
  // it had ended. If it is alive, it is left to end by itself, until Stop(). Not ours: no effect.
  absl::Status Replace(pid_t pid);

  // Whether a process has ended that Restart() has not dealt with yet.
  bool SomebodyHasEnded() const;

  // Whether there is a worker of this name, that is not done.
  bool Has(const std::string& name) const;
  // In the order of their start.
  std::vector<std::string> names() const;
  // The id of its present process.
  std::optional<pid_t> PidOf(const std::string& name) const;
  // The exit status with which the last worker of this name was done.
  std::optional<int> DoneWith(const std::string& name) const;

  // Waits until all have ended by themselves, and kills what is left after `timeout`.
  void Stop(absl::Duration timeout);

  // The ids of the workers' present processes, in the order of their start; 0: one was given up.
  std::vector<pid_t> pids() const;
  int64_t restarts() const { return restarts_; }

 private:
  struct Process {
    Worker worker;
    pid_t pid = 0;  // 0: there is none
    int64_t started_nanos = 0;
    int failures = 0;  // in a row
    bool started_before = false;
  };

  // Takes note of a process that has done its work.
  bool IsDone(const Process& process, int wait_status);

  absl::Status Spawn(Process* process);
  // Another one in the place of a process that `ended` somehow.
  absl::Status StartAgain(absl::string_view ended, Process* process);

  const Options options_;
  std::vector<Process> processes_;
  std::vector<pid_t> given_up_;
  std::map<std::string, int> done_;  // exit status, by name
  int64_t restarts_ = 0;
};

// "exit status 1", "signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SUPERVISOR_H_
