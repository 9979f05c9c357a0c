// Refuses the use of an object in a process that was forked after the object was made: a lock that
// a thread of the parent held stays locked there, and its threads do not exist. And the use of one
// by two threads.
//
// Threads: thread-safe.
#ifndef DING_WORKER_PYTHON_EXTENSION_PROCESS_GUARD_H_
#define DING_WORKER_PYTHON_EXTENSION_PROCESS_GUARD_H_

#include <pthread.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"

namespace ding {

class ProcessGuard {
 public:
  ProcessGuard() : forks_(Forks().load()) {}

  // Throws, so that Python raises RuntimeError.
  void Check(const std::string& name) const {
    if (Forks().load(std::memory_order_relaxed) == forks_) return;
    throw std::runtime_error(absl::StrCat(
        name,
        " was made before this process was forked, expected a use in the process that made "
        "it: make another one here"));
  }

 private:
  // The number of forks that led to this process.
  static std::atomic<int>& Forks() {
    static std::atomic<int> forks{0};
    static const int registered =
        pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(registered);
    return forks;
  }

  const int forks_;
};

// Lets one thread at a time use an object, in the process that made it.
class UseGuard {
 public:
  explicit UseGuard(const char* name) : name_(name) {}

  // A use lasts as long as the returned value. Throws, so that Python raises RuntimeError.
  std::unique_ptr<UseGuard, void (*)(UseGuard*)> Enter() {
    process_.Check(name_);
    if (busy_.exchange(true)) {
      throw std::runtime_error(absl::StrCat("another thread uses ", name_,
                                            ", expected one thread at a time: each needs its own"));
    }
    return {this, [](UseGuard* guard) { guard->busy_.store(false); }};
  }

 private:
  const char* const name_;
  const ProcessGuard process_;
  std::atomic<bool> busy_{false};
};

}  // namespace ding

#endif  // DING_WORKER_PYTHON_EXTENSION_PROCESS_GUARD_H_
