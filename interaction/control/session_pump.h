// The two threads that do the work of all sessions of a process.
//
//     Wake(), or the end of its rest ──► jobs, ordered by due time ──► a thread runs the job
//
// Ownership: the pump lives until the last owner of the pointer from Get() drops it; then its
//            threads end and are joined. The owner of a job removes it before the pump ends.
// Threads:   thread-safe. Only one thread at a time runs a job, without holding a lock.
#ifndef DING_WORKER_INTERACTION_CONTROL_SESSION_PUMP_H_
#define DING_WORKER_INTERACTION_CONTROL_SESSION_PUMP_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ding {

class SessionPump {
 public:
  static constexpr int kThreads = 2;

  struct Job;
  // Does some work without waiting. Returns how long the job then rests, unless it is woken.
  using Work = std::function<absl::Duration()>;

  // The pump of this process.
  //   kResourceExhausted  the system refuses to start its threads
  static absl::StatusOr<std::shared_ptr<SessionPump>> Get();
  ~SessionPump();

  // Adds a job, which runs for the first time when it is woken.
  std::shared_ptr<Job> Add(Work work);
  // Removes the job. It does not run any more when this returns. A job must not remove itself.
  void Remove(Job* job);
  // Lets a thread run the job after `delay`, or earlier if it is due earlier. A running job runs
  // once more. Has no effect on a removed job, even if the pump has ended.
  static void Wake(Job* job, absl::Duration delay = absl::ZeroDuration());

 private:
  class Queue;

  SessionPump();

  const std::shared_ptr<Queue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_PUMP_H_
