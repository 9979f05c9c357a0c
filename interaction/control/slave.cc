#include "ding_worker/interaction/control/slave.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {
namespace {

// Send() waits only while the session's window is full, which means that the coordinator is stuck.
// The lease runs out before this timeout.
constexpr absl::Duration kSendTimeout = absl::Minutes(1);
constexpr absl::Duration kReceiveTimeout = absl::Minutes(1);

std::string IdOf(const StartTask& start) {
  return start.has_collector() ? start.collector().task_id() : start.learner().task_id();
}

}  // namespace

Slave::Slave(WorkerSession* session, Callbacks callbacks)
    : session_(session), callbacks_(std::move(callbacks)) {}

absl::StatusOr<EndRun> Slave::Serve() {
  EndRun end;
  absl::Status status;
  while (status.ok()) {
    const absl::StatusOr<CoordinatorMessage> message = session_->Receive(kReceiveTimeout);
    if (message.ok()) {
      if (!Handle(*message, &end)) break;
    } else if (!absl::IsDeadlineExceeded(message.status())) {
      status = message.status();
    }
  }
  if (!status.ok()) {
    MutexLock lock(&mutex_);
    session_status_ = status;
  }
  CloseTask();
  JoinTask();
  DING_RETURN_IF_ERROR(status);
  return end;
}

bool Slave::Handle(const CoordinatorMessage& message, EndRun* end) {
  if (message.has_end_run()) {
    *end = message.end_run();
    return false;
  }
  if (message.has_start_task()) {
    // StartTask may follow CloseTask immediately. If the new task were known before the old one is
    // over, the old one would not see that it is closed, or would cancel the new one.
    CloseTask();
    JoinTask();
    {
      MutexLock lock(&mutex_);
      task_id_ = IdOf(message.start_task());
      running_ = true;
      closing_ = false;
      ResetTask(message.start_task());
    }
    absl::StatusOr<std::thread> thread =
        StartThread(absl::StrCat("task ", IdOf(message.start_task())),
                    [this, start = message.start_task()] { RunTask(start); });
    if (!thread.ok()) {
      // The coordinator then gives the task to another worker, or to this one again. If the report
      // cannot be sent, the session's status says so.
      Fail(thread.status()).IgnoreError();
      return true;
    }
    task_thread_ = *std::move(thread);
  } else if (message.has_close_task()) {
    bool mine = false;
    {
      MutexLock lock(&mutex_);
      mine = IsTask(message.close_task().task_id());
    }
    if (mine) CloseTask();
  } else {
    MutexLock lock(&mutex_);
    Take(message);
    changed_.SignalAll();
  }
  return true;
}

void Slave::RunTask(const StartTask& start) {
  const absl::Status status = CallUser("a module", [&] {
    callbacks_.run(start);
    return absl::OkStatus();
  });
  if (!status.ok()) Fail(status).IgnoreError();  // or the session is over
}

void Slave::CloseTask() {
  CancelTask();
  if (callbacks_.close != nullptr) callbacks_.close();
}

void Slave::JoinTask() {
  if (task_thread_.joinable()) task_thread_.join();
}

void Slave::CancelTask() {
  MutexLock lock(&mutex_);
  closing_ = true;
  changed_.SignalAll();
}

absl::Status Slave::TaskStatus() const {
  MutexLock lock(&mutex_);
  return TaskStatusLocked();
}

bool Slave::HasTask() const {
  MutexLock lock(&mutex_);
  return running_;
}

absl::Status Slave::TaskStatusLocked() const {
  DING_RETURN_IF_ERROR(session_status_);
  if (closing_) return absl::CancelledError("the task is being closed");
  return absl::OkStatus();
}

absl::Status Slave::Pause(absl::Duration duration) {
  const Deadline deadline = Deadline::After(duration);
  MutexLock lock(&mutex_);
  while (TaskStatusLocked().ok() && changed_.WaitUntil(&mutex_, deadline)) {
  }
  return TaskStatusLocked();
}

std::string Slave::task_id() const {
  MutexLock lock(&mutex_);
  return task_id_;
}

absl::Status Slave::Started() {
  WorkerMessage message;
  message.mutable_task_started()->set_task_id(task_id());
  return Send(message);
}

absl::Status Slave::Fail(const absl::Status& status) {
  WorkerMessage message;
  message.mutable_task_failed()->set_task_id(task_id());
  message.mutable_task_failed()->set_code(static_cast<int>(status.code()));
  message.mutable_task_failed()->set_message(std::string(status.message()));
  EndTask();
  return Send(message);
}

void Slave::EndTask() {
  MutexLock lock(&mutex_);
  running_ = false;
}

absl::Status Slave::Send(const WorkerMessage& message) {
  return session_->Send(message, kSendTimeout);
}

}  // namespace ding
