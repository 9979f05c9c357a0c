// A thread that does one piece of work at a time, in parallel to its owner's thread.
//
// Everything that the owner did before Begin() is visible to the work, and everything that the work
// did is visible to the owner after Wait().
//
// Ownership: owns its thread. The destructor waits for the work that is under way.
// Threads:   Begin(), Wait() and the destructor belong to the owner's thread.
//
// Example:
//   DING_ASSIGN_OR_RETURN(const auto second, SecondThread::Start("learning"));
//   second->Begin([&] { return Learn(); });
//   const absl::Status collected = Collect();
//   const absl::Status learned = second->Wait();
#ifndef DING_WORKER_WORKER_PIPELINE_SECOND_THREAD_H_
#define DING_WORKER_WORKER_PIPELINE_SECOND_THREAD_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/mutex.h"

namespace ding {

class SecondThread {
 public:
  // `purpose` names the thread in errors.
  //   kResourceExhausted  the system refuses a thread
  static absl::StatusOr<std::unique_ptr<SecondThread>> Start(absl::string_view purpose);
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;
  ~SecondThread();

  // Begins `work`. No other work may be under way.
  void Begin(std::function<absl::Status()> work) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the end of the work, and returns what it returned; OK if none is under way. An
  // exception of the work is the error kInternal.
  absl::Status Wait() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit SecondThread(absl::string_view purpose) : purpose_(purpose) {}

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string purpose_;
  Mutex mutex_;
  CondVar changed_;
  std::function<absl::Status()> work_ ABSL_GUARDED_BY(mutex_);  // empty: none is under way
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_SECOND_THREAD_H_
