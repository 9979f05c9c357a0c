// The worker's side of the control plane, for collectors and learners: takes tasks from the
// coordinator, one at a time, until the run ends. A subclass for each kind of worker handles the
// other messages of its tasks.
//
//     Serve()  ◄── StartTask, CloseTask, EndRun, and the subclass's messages ── coordinator
//     Started(), Fail() ──────────────────────────────────────────────────────►
//
// Ownership: the session must outlive the slave. The slave owns the task's thread, which Serve()
// joins.
// Threads:   thread-safe: one thread runs Serve(), another one the task.
// Blocking:  a call of a subclass that waits returns kCancelled when the task is being closed, and
//            the session's status when the session is over.
#ifndef DING_WORKER_INTERACTION_CONTROL_SLAVE_H_
#define DING_WORKER_INTERACTION_CONTROL_SLAVE_H_

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
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class Slave {
 public:
  struct Callbacks {
    // Runs a task to its end on a thread of its own. The task must have reported its end when this
    // returns. The slave takes the next task only after that, so the messages of two tasks never
    // mix.
    std::function<void(const StartTask&)> run;
    // Asks the running task to end; TaskStatus() already returns an error. It is called on the
    // thread of Serve(), also when no task is running, and must not wait for long. May be empty.
    std::function<void()> close;
  };

  Slave(WorkerSession* session, Callbacks callbacks);
  Slave(const Slave&) = delete;
  Slave& operator=(const Slave&) = delete;
  virtual ~Slave() = default;

  // Takes messages until the run ends or the session is over. A task that is still running is then
  // closed; it may report how it ended, and Serve() waits for it. Call it once. Returns the message
  // that ended the run, or an error of WorkerSession::Receive().
  absl::StatusOr<EndRun> Serve();

  // The number of this incarnation of the worker.
  uint32_t worker() const { return session_->welcome().worker(); }

  // OK while the running task may go on. kCancelled when it is being closed, or the session's
  // error.
  absl::Status TaskStatus() const;
  // Whether a task is running whose end has not been reported.
  bool HasTask() const;
  // Reports that the task is ready. The task calls it once, before it sends anything else.
  absl::Status Started();
  // Reports that the task is over without a result, for the reason `status`.
  absl::Status Fail(const absl::Status& status);
  // Waits for `duration`, or until TaskStatus() is not OK. Returns TaskStatus().
  absl::Status Pause(absl::Duration duration);
  // Wakes the calls that wait for the running task, as if the coordinator closed the task.
  void CancelTask();

 protected:
  // Called when a task starts. The subclass drops the state of the previous task.
  virtual void ResetTask(const StartTask& start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Called with any other message. The subclass ignores messages that it does not know: they belong
  // to a later minor version of the protocol.
  virtual void Take(const CoordinatorMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  absl::Status TaskStatusLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string task_id() const;
  bool IsTask(absl::string_view id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return running_ && id == task_id_;
  }
  absl::Status Send(const WorkerMessage& message);
  // Ends the task: its messages are ignored from now on.
  void EndTask();

  mutable Mutex mutex_;
  // Signalled when state guarded by mutex_ has changed, here or in the subclass.
  CondVar changed_;

 private:
  // Returns false if the run is over.
  bool Handle(const CoordinatorMessage& message, EndRun* end);
  // The body of a task's thread. An exception fails the task.
  void RunTask(const StartTask& start);
  void CloseTask();
  void JoinTask();

  WorkerSession* const session_;
  const Callbacks callbacks_;
  std::string task_id_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status session_status_ ABSL_GUARDED_BY(mutex_);
  std::thread task_thread_;  // only the thread of Serve() uses it
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SLAVE_H_
