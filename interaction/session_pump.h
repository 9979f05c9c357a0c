// The threads of all sessions of a process: two, however many sessions there are.
//
//     Wake(job), or the time that its Run() asked for ──► queue ──► one of the threads: job->Run()
//
// Ownership: the pump ends, and its threads are joined, with the last owner of what Get() returned.
//            Jobs are their owners'; each is removed before it is destroyed.
// Threads:   thread-safe. Run() of one job is called by one thread at a time, without a lock.
#ifndef DING_WORKER_INTERACTION_SESSION_PUMP_H_
#define DING_WORKER_INTERACTION_SESSION_PUMP_H_

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
    // Must not wait. Returns after how long it is to be called again, if nobody wakes it before.
    virtual absl::Duration Run() = 0;
  };
  // What wakes a job. May outlive the job and the pump, and has no effect then.
  class Waker {
   public:
    virtual ~Waker() = default;
    // Run() is called soon, once more if it is being called now.
    virtual void Wake() = 0;
  };

  // The pump of this process.
  //   kResourceExhausted  the system refuses its threads
  static absl::StatusOr<std::shared_ptr<SessionPump>> Get();
  ~SessionPump();

  // `job` is called for the first time when it is woken.
  std::shared_ptr<Waker> Add(Job* job);
  // Returns when `job` is not called any more. Not to be called by Run().
  void Remove(Waker* waker);

 private:
  class Entry;
  class Queue;

  SessionPump();

  const std::shared_ptr<Queue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_SESSION_PUMP_H_
