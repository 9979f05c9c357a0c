// The two threads that do the work of all sessions of a process, however many sessions there are.
//
//     Wake() of a job, or the time that its Run() asked for ──► queue ──► one of the threads: job->Run()
//
// Ownership: the pump lives until the last owner of the pointer from Get() drops it; then its threads end and are
//            joined. A job belongs to whoever adds it, who removes it before destroying it.
// Threads:   thread-safe. Only one thread at a time calls Run() of a job, without holding a lock.
#ifndef DING_WORKER_INTERACTION_CONTROL_SESSION_PUMP_H_
#define DING_WORKER_INTERACTION_CONTROL_SESSION_PUMP_H_

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ding {

class SessionPump {
 public:
  static constexpr int kThreads = 2;

  class Job {
   public:
    virtual ~Job() = default;
    // Must not wait. Returns the time after which Run() is called again if nobody wakes the job before.
    virtual absl::Duration Run() = 0;
  };
  // Wakes a job. It may outlive the job and the pump; then it has no effect.
  class Waker {
   public:
    virtual ~Waker() = default;
    // Lets a thread call Run() soon; if Run() is running now, it is called once more.
    virtual void Wake() = 0;
  };

  // The pump of this process.
  //   kResourceExhausted  the system refuses to start its threads
  static absl::StatusOr<std::shared_ptr<SessionPump>> Get();
  ~SessionPump();

  // Adds `job`. Its Run() is called for the first time when the waker wakes it.
  std::shared_ptr<Waker> Add(Job* job);
  // Removes the job of `waker`. Run() does not run any more when this returns. Run() must not call it.
  void Remove(Waker* waker);

 private:
  class Entry;
  class Queue;

  SessionPump();

  const std::shared_ptr<Queue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_PUMP_H_
