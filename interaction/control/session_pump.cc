#include "ding_worker/interaction/control/session_pump.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {
namespace {

absl::Duration RealTime() { return absl::Nanoseconds(Clock::Real()->MonotonicNanos()); }

}  // namespace

struct SessionPump::Job {
  const std::shared_ptr<Queue> queue;
  const Work work;
  // The queue's mutex guards all of these.
  absl::Duration due = absl::InfiniteDuration();
  bool running = false;
  bool removed = false;
};

class SessionPump::Queue {
 public:
  void Wake(Job* job, absl::Duration delay) {
    MutexLock lock(&mutex_);
    const bool waits = Schedule(job, RealTime() + delay);
    if (waits && (delay == absl::ZeroDuration() || job->due < idle_until_)) work_.Signal();
  }

  void Remove(Job* job) {
    MutexLock lock(&mutex_);
    job->removed = true;
    jobs_.erase({job->due, job});
    while (job->running) removed_.WaitFor(&mutex_, absl::InfiniteDuration());
  }

  void Stop() {
    MutexLock lock(&mutex_);
    stop_ = true;
    work_.SignalAll();
  }

  // The body of each thread.
  void Work() {
    MutexLock lock(&mutex_);
    while (!stop_) {
      const absl::Duration due = jobs_.empty() ? absl::InfiniteDuration() : jobs_.begin()->first;
      const absl::Duration left = due - RealTime();
      if (left > absl::ZeroDuration()) {
        idle_until_ = due;
        work_.WaitFor(&mutex_, left);
        idle_until_ = absl::InfiniteDuration();
        continue;
      }
      Job* const job = jobs_.begin()->second;
      jobs_.erase(jobs_.begin());
      Run(job);
    }
  }

 private:
  void Run(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    job->running = true;
    job->due = absl::InfiniteDuration();
    mutex_.Unlock();
    const absl::Duration again = job->work();
    mutex_.Lock();
    job->running = false;
    if (job->removed) return removed_.SignalAll();
    const absl::Duration woken = std::exchange(job->due, absl::InfiniteDuration());
    // The other thread may wait for a later job, and this one may be busy when the job is due.
    if (Schedule(job, std::min(woken, RealTime() + again)) && job->due < idle_until_) {
      work_.Signal();
    }
  }

  // Lets the job run at `due`, or earlier if it is due earlier. Whether a thread may have to be
  // woken for it.
  bool Schedule(Job* job, absl::Duration due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (job->removed || due >= job->due) return false;
    if (!job->running) {
      jobs_.erase({job->due, job});
      jobs_.emplace(due, job);
    }
    job->due = due;
    return !job->running;
  }

  Mutex mutex_;
  CondVar work_;     // the threads wait for it
  CondVar removed_;  // Remove() waits for it
  std::set<std::pair<absl::Duration, Job*>> jobs_ ABSL_GUARDED_BY(mutex_);  // all that wait
  // The time at which the thread that went idle last looks again.
  absl::Duration idle_until_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::shared_ptr<SessionPump>> SessionPump::Get() {
  static auto* const mutex = new Mutex;
  static auto* const current = new std::weak_ptr<SessionPump>;
  MutexLock lock(mutex);
  std::shared_ptr<SessionPump> pump = current->lock();
  if (pump != nullptr) return pump;
  pump = absl::WrapUnique(new SessionPump);
  for (int i = 0; i < kThreads; ++i) {
    DING_ASSIGN_OR_RETURN(std::thread thread,
                          StartThread("sessions", [queue = pump->queue_] { queue->Work(); }));
    pump->threads_.push_back(std::move(thread));
  }
  *current = pump;
  return pump;
}

SessionPump::SessionPump() : queue_(std::make_shared<Queue>()) {}

SessionPump::~SessionPump() {
  queue_->Stop();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<SessionPump::Job> SessionPump::Add(Work work) {
  return std::shared_ptr<Job>(new Job{queue_, std::move(work)});
}

void SessionPump::Remove(Job* job) { queue_->Remove(job); }

void SessionPump::Wake(Job* job, absl::Duration delay) { job->queue->Wake(job, delay); }

}  // namespace ding
