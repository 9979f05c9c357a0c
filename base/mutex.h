// Mutex, scoped lock and condition variable. They wrap the standard ones and add Abseil's thread
// annotations, so that clang checks the locking. ThreadSanitizer sees these locks; it cannot see
// into an absl::Mutex that a distribution has built.
//
// Threads: Mutex and CondVar are thread-safe; a MutexLock belongs to the thread that made it.
#ifndef DING_WORKER_BASE_MUTEX_H_
#define DING_WORKER_BASE_MUTEX_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/cpu.h"

namespace ding {

// Our locks are held for microseconds, but a thread that sleeps until a lock is free wakes up only
// tens of microseconds later, and may find that the thread that released the lock has taken it
// again. Therefore a thread tries for a while (kLooks times) before it sleeps, and a thread that
// comes later lets the waiting ones go first for as long.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    for (int i = 0; i < kLooks && waiting_.load(std::memory_order_relaxed) > 0; ++i) Pause();
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < kLooks; ++i) {
      if (mutex_.try_lock()) {
        waiting_.fetch_sub(1, std::memory_order_relaxed);
        return;
      }
      Pause();
    }
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  static constexpr int kLooks = 500;  // some 15 microseconds on an EPYC at 2.6 GHz

  std::mutex mutex_;
  std::atomic<int> waiting_{0};
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }

 private:
  Mutex* const mutex_;
};

// A wait may end without a signal: wait in a loop that checks the condition.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases `mutex`, waits for a signal or until `deadline`, and takes `mutex` again. Returns
  // false if the deadline has passed without a signal.
  bool WaitUntil(Mutex* mutex, const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return WaitFor(mutex, deadline.Left());
  }
  // The same with a duration. Prefer WaitUntil in a loop: each WaitFor starts its timeout anew.
  bool WaitFor(Mutex* mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    // An infinite timeout of either sign would overflow the standard library's clock.
    const auto bounded = absl::ToChronoNanoseconds(
        std::min(std::max(timeout, absl::ZeroDuration()), absl::Hours(24 * 365)));
    const bool signalled = cond_.wait_for(lock, bounded) == std::cv_status::no_timeout;
    lock.release();  // The caller's MutexLock still owns the mutex.
    return signalled;
  }
  // Wakes one waiting thread, or all of them.
  void Signal() { cond_.notify_one(); }
  void SignalAll() { cond_.notify_all(); }

 private:
  std::condition_variable cond_;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_MUTEX_H_
