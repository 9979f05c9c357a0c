// Starts threads, one (StartThread) or a team that shares a loop (ThreadTeam), with an error
// instead of an exception when the system refuses one.
//
// std::thread throws std::system_error when the limit of processes (ulimit -u, or pids.max of a
// container) or of address space (ulimit -v) is reached. Our code does not catch it, so that the
// program would abort. All code outside of tests starts its threads here.
//
// Threads: thread-safe.
//
// Example:
//   DING_ASSIGN_OR_RETURN(thread_, StartThread("the timer of the coordinator", [this] { Run(); }));
#ifndef DING_WORKER_BASE_THREAD_H_
#define DING_WORKER_BASE_THREAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/mutex.h"

namespace ding {

// Starts a thread that executes `body`; the caller must join it. `purpose` names it in the error.
//   kResourceExhausted  the system refuses a thread; the message says which limits to raise
absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body);

// Checks that this process can have `count` more threads at a time: starts them and ends them
// again. For main(), on behalf of libraries that abort the program when they cannot start a thread.
// It is a snapshot: the system may refuse threads a moment later.
//   kResourceExhausted  as above; the message says how many threads could be started
absl::Status CheckThreads(int count);

// A few threads that compute a piece of work together, over and over, and meet at its end.
//
// It is made for work of some microseconds: a member looks for the next piece for a while before it
// sleeps, so that a piece which follows soon begins within a microsecond, and an idle team costs
// nothing.
//
// Everything that the caller did before Run() is visible to all members, and everything that they
// did is visible to the caller afterwards. The team owns its threads and joins them. While one
// thread runs work, a second thread's Run() does its work on that second thread alone.
//
// Example:
//   DING_ASSIGN_OR_RETURN(const auto team, ThreadTeam::Create(2, "learning"));
//   team->Run([&](int member) { Sum(parts[member], &sums[member]); });
class ThreadTeam {
 public:
  // A team of `size` members, at least 1: the caller of Run() and size - 1 threads. `purpose` names
  // them in errors.
  //   kResourceExhausted  the system refuses a thread
  static absl::StatusOr<std::unique_ptr<ThreadTeam>> Create(int size, absl::string_view purpose);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls work(member) once for each member 0 .. size() - 1, at the same time, and returns when all
  // calls have returned. `work` must not throw, and must not call Run().
  void Run(absl::FunctionRef<void(int member)> work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Work = absl::FunctionRef<void(int member)>;

  ThreadTeam() = default;

  void Serve(int member) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until `value` is no longer `old`.
  void WaitForChange(const std::atomic<int64_t>& value, int64_t old) ABSL_LOCKS_EXCLUDED(mutex_);
  // Wakes those who sleep in WaitForChange().
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  std::atomic<bool> busy_{false};
  const Work* work_ = nullptr;      // null: the threads shall end
  std::atomic<int64_t> pieces_{0};  // how many pieces of work have begun
  // Members, beside the caller, that have not finished the current piece.
  std::atomic<int64_t> unfinished_{0};
  std::atomic<int> sleeping_{0};
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::thread> threads_;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_THREAD_H_
