// Mutex, scoped lock and condition variable: the standard ones with Abseil's thread annotations, so
// that clang checks the locking and ThreadSanitizer sees it (it cannot see into a
// distribution-built absl::Mutex).
//
// Threads: Mutex and CondVar are thread-safe; a MutexLock belongs to the thread that made it.
#ifndef DING_WORKER_BASE_MUTEX_H_
#define DING_WORKER_BASE_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace ding {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
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

// Waits may wake without a signal: call them in a loop that checks the condition.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases `mutex`, waits, takes it again. Returns false when `deadline` has passed.
  bool WaitUntil(Mutex* mutex, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return WaitFor(mutex, deadline - absl::Now());
  }
  bool WaitFor(Mutex* mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    // An infinite timeout would overflow the standard library's clock.
    const auto bounded = absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
    const bool signalled = cond_.wait_for(lock, bounded) == std::cv_status::no_timeout;
    lock.release();  // The caller's MutexLock goes on owning it.
    return signalled;
  }
  void Signal() { cond_.notify_one(); }
  void SignalAll() { cond_.notify_all(); }

 private:
  std::condition_variable cond_;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_MUTEX_H_
