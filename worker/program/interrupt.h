// What a signal does to a program. SIGINT (Ctrl-C), SIGTERM, SIGHUP (the terminal is closed) and
// SIGUSR1 (a batch system warns that the time is nearly over) all mean the same: a request to end,
// which sets a flag in the process.
//
//   signal ──► IsInterrupted()   polled between rounds: the run saves itself and ends
//         └──► IsOverdue()       after kInterruptPatience; polled within a round or an
//         │                      evaluation, which is then given up
//         └──► InterruptDeadline after kLastInterruptPatience, if the thread polls nothing (a long
//                                step of an env, a long update): another thread saves the last
//                                safe point, and the process ends
//
// A second signal of the same kind ends the process at once.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_PROGRAM_INTERRUPT_H_
#define DING_WORKER_WORKER_PROGRAM_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"

namespace ding {

// From now on the first signal of each kind is only recorded. SIGHUP and SIGUSR1 stay ignored if
// the program was started so (nohup). SIGPIPE is ignored, since whoever reads the output may end
// with the terminal.
void CatchInterrupts();

// The signal that arrived first, or 0.
int InterruptSignal();
inline bool IsInterrupted() { return InterruptSignal() != 0; }

constexpr absl::Duration kInterruptPatience = absl::Milliseconds(400);
constexpr absl::Duration kLastInterruptPatience = absl::Milliseconds(700);
// Whether a signal arrived kInterruptPatience ago or earlier. Cheap.
bool IsOverdue();

// While one lives, this process saves something, and InterruptDeadline lets it finish.
class ScopedSave {
 public:
  ScopedSave() { ++count; }
  ScopedSave(const ScopedSave&) = delete;
  ScopedSave& operator=(const ScopedSave&) = delete;
  ~ScopedSave() { --count; }

 private:
  friend class InterruptDeadline;
  static std::atomic<int> count;
};

// Ends this process if an interrupt has not ended it in time.
//
// Ownership: owns a thread, which calls the functions; what they use must outlive the watch.
//
// Example:
//   InterruptDeadline watch;
//   DING_RETURN_IF_ERROR(watch.Start());
//   watch.Enter([] { std::fprintf(stderr, "interrupted: nothing is saved\n"); });   // set-up
//   watch.Enter([&] { SaveWhatThereIs(); });                                        // the run
//   watch.Enter([] {});                                                             // closing
class InterruptDeadline {
 public:
  InterruptDeadline() = default;
  InterruptDeadline(const InterruptDeadline&) = delete;
  InterruptDeadline& operator=(const InterruptDeadline&) = delete;
  ~InterruptDeadline();

  // To be called once. kResourceExhausted: the system refuses a thread.
  absl::Status Start();
  // Begins the next stage. If that lasts longer than kLastInterruptPatience after an interrupt and
  // after its own beginning, `end` is called and the process ends with the status 128 + signal,
  // without destructors. Null: the stage takes as long as it takes. Does not return if the `end` of
  // the stage before is being called.
  void Enter(std::function<void()> end) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> end_ ABSL_GUARDED_BY(mutex_);
  Timer begun_ ABSL_GUARDED_BY(mutex_){Clock::Real()};
  std::thread thread_;  // last, since it uses the other members
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROGRAM_INTERRUPT_H_
