// The side of the control plane that a worker of either kind has: takes tasks from the coordinator,
// one at a time, until the run ends. What the tasks of a kind say beside that is its subclass's.
//
//     Serve()  ◄── StartTask, CloseTask, EndRun, and what the subclass takes ── coordinator
//     Started(), Fail() ──────────────────────────────────────────────────────►
//
// Ownership: the session outlives it. Owns the task's thread, which Serve() joins.
// Threads:   thread-safe: Serve() has a thread, the task another.
// Blocking:  what waits in a subclass returns kCancelled when the task is being closed, and the
//            session's status when that is over.
#ifndef DING_WORKER_INTERACTION_SLAVE_H_
#define DING_WORKER_INTERACTION_SLAVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/worker_session.h"

namespace ding {

class Slave {
 public:
  struct Callbacks {
    // Runs a task on a thread of its own, to its end: it has said then that it is over. Until then
    // nothing of the next task is known here: what the old one does still counts as its own.
    std::function<void(const StartTask&)> run;
    // The running task is to end: TaskStatus() says so already. Also called when there is none, on
    // the thread of Serve(), which is not to wait for long. May be empty.
    std::function<void()> close;
  };

  Slave(WorkerSession* session, Callbacks callbacks);
  Slave(const Slave&) = delete;
  Slave& operator=(const Slave&) = delete;
  virtual ~Slave() = default;

  // Takes messages until the run ends or the session is over. A task that is running then is told
  // to close, may still report how it ended, and is waited for. Once.
  absl::StatusOr<EndRun> Serve();

  // Number of this incarnation of the worker.
  uint32_t worker() const { return session_->welcome().worker(); }

  // The running task's: OK while it may go on.
  absl::Status TaskStatus() const;
  // It is ready; to be called once, before it sends anything else.
  absl::Status Started();
  // It is over, without a result.
  absl::Status Fail(const absl::Status& status);
  // Waits for that long, or until TaskStatus(), which is returned, is not OK.
  absl::Status Pause(absl::Duration duration);
  // Wakes what waits for it, as when the coordinator closes it.
  void CancelTask();

 protected:
  // A task starts; the subclass forgets that before.
  virtual void ResetTask(const StartTask& start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Any other message: one that the subclass does not know is of a later minor version.
  virtual void Take(const CoordinatorMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  absl::Status TaskStatusLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string task_id() const;
  bool IsTask(absl::string_view id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return running_ && id == task_id_;
  }
  absl::Status Send(const WorkerMessage& message);
  // From now on messages of the task are not taken.
  void EndTask();

  mutable Mutex mutex_;
  CondVar changed_;  // whatever mutex_ guards, here and in the subclass

 private:
  // False: the run is over.
  bool Handle(const CoordinatorMessage& message, EndRun* end);
  void CloseTask();
  void JoinTask();

  WorkerSession* const session_;
  const Callbacks callbacks_;
  std::string task_id_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status session_status_ ABSL_GUARDED_BY(mutex_);
  std::thread task_thread_;  // of the thread of Serve()
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_SLAVE_H_
