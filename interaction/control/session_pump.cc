#include "ding_worker/interaction/control/session_pump.h"

#include <deque>
#include <map>
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

class SessionPump::Entry : public SessionPump::Waker,
                           public std::enable_shared_from_this<SessionPump::Entry> {
 public:
  using Timers = std::multimap<absl::Duration, std::shared_ptr<Entry>>;

  Entry(std::shared_ptr<Queue> queue, Job* job) : queue_(std::move(queue)), job_(job) {}
  void Wake() override;

 private:
  friend class Queue;

  const std::shared_ptr<Queue> queue_;
  Job* const job_;
  // The queue's mutex guards all of these.
  bool queued_ = false;
  bool running_ = false;
  bool woken_ = false;  // whether it was woken while it was running
  bool removed_ = false;
  bool has_timer_ = false;
  Timers::iterator timer_;  // valid if has_timer_; due when Run() asked for it, or earlier
};

class SessionPump::Queue {
 public:
  void Wake(const std::shared_ptr<Entry>& entry) {
    MutexLock lock(&mutex_);
    WakeLocked(entry);
  }

  void Remove(Entry* entry) {
    MutexLock lock(&mutex_);
    entry->removed_ = true;
    RemoveTimer(entry);
    while (entry->running_) removed_.WaitFor(&mutex_, absl::InfiniteDuration());
  }

  void Stop() {
    MutexLock lock(&mutex_);
    stop_ = true;
    work_.SignalAll();
  }

  // Drops the removed entries that are still queued.
  void Clear() {
    MutexLock lock(&mutex_);
    ready_.clear();
  }

  // The body of each thread.
  void Work() {
    MutexLock lock(&mutex_);
    while (!stop_) {
      const absl::Duration now = RealTime();
      while (!timers_.empty() && timers_.begin()->first <= now) {
        const std::shared_ptr<Entry> due = timers_.begin()->second;
        RemoveTimer(due.get());
        WakeLocked(due);
      }
      if (ready_.empty()) {
        work_.WaitFor(&mutex_,
                      timers_.empty() ? absl::InfiniteDuration() : timers_.begin()->first - now);
        continue;
      }
      const std::shared_ptr<Entry> entry = std::move(ready_.front());
      ready_.pop_front();
      entry->queued_ = false;
      if (!entry->removed_) RunOne(entry);
    }
  }

 private:
  void WakeLocked(const std::shared_ptr<Entry>& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (entry->running_) entry->woken_ = true;
    if (entry->running_ || entry->queued_ || entry->removed_) return;
    entry->queued_ = true;
    ready_.push_back(entry);
    work_.Signal();
  }

  void RunOne(const std::shared_ptr<Entry>& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    entry->running_ = true;
    mutex_.Unlock();
    const absl::Duration again = entry->job_->Run();
    mutex_.Lock();
    entry->running_ = false;
    if (entry->removed_) return removed_.SignalAll();
    if (std::exchange(entry->woken_, false)) {
      WakeLocked(entry);
    } else {
      SetTimer(entry, RealTime() + again);
    }
  }

  // A timer that is too early stays where it is: it costs one call of Run(), while setting it anew
  // for each message would cost more.
  void SetTimer(const std::shared_ptr<Entry>& entry, absl::Duration due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (entry->has_timer_ && entry->timer_->first <= due) return;
    RemoveTimer(entry.get());
    if (due == absl::InfiniteDuration()) return;
    const bool is_first = timers_.empty() || due < timers_.begin()->first;
    entry->timer_ = timers_.emplace(due, entry);
    entry->has_timer_ = true;
    if (is_first) work_.Signal();
  }
  void RemoveTimer(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!entry->has_timer_) return;
    entry->has_timer_ = false;
    timers_.erase(entry->timer_);
  }

  Mutex mutex_;
  CondVar work_;     // the threads wait for it
  CondVar removed_;  // Remove() waits for it
  std::deque<std::shared_ptr<Entry>> ready_ ABSL_GUARDED_BY(mutex_);
  Entry::Timers timers_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

void SessionPump::Entry::Wake() { queue_->Wake(shared_from_this()); }

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
  queue_->Clear();
}

std::shared_ptr<SessionPump::Waker> SessionPump::Add(Job* job) {
  return std::make_shared<Entry>(queue_, job);
}

void SessionPump::Remove(Waker* waker) { queue_->Remove(static_cast<Entry*>(waker)); }

}  // namespace ding
