#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {

int64_t CoordinatorImpl::EnvSteps() const {
  return progress_.finished_steps() + workers_.EnvSteps();
}

int64_t CoordinatorImpl::EnvStepsOf(const TaskBuffer& buffer) const {
  return buffer.finished_steps() + workers_.EnvStepsFor(buffer);
}

RunStatus CoordinatorImpl::status() const {
  RunStatus status;
  std::vector<std::shared_ptr<TaskBuffer>> buffers;
  {
    MutexLock lock(&mutex_);
    status.set_run(options_.run);
    const std::optional<double> eval_value = commander_->last_eval_value();
    progress_.FillStatus(EnvSteps(), eval_value.has_value(), &status);
    if (eval_value.has_value()) {
      status.set_eval_value(*eval_value);
      for (const double episode_return : commander_->last_eval_returns()) {
        status.add_eval_return(episode_return);
      }
    }
    status.set_policy_version(policies_.last_published());
    commander_->AddStatus(&status);
    if (ended_) status.set_end_reason(end_reason_);
    status.set_incarnation(incarnation_);
    status.set_wanted_collectors(ended_ ? 0 : commands_.wanted_collectors());
    status.set_coordinator_pid(getpid());
    for (const std::string& warning : warnings_) status.add_warning(warning);
    for (const auto& [kind, why] : unmet_) status.add_warning(why);
    workers_.FillStatus(deps_.clock->MonotonicNanos(), &status);
    for (const auto& [id, buffer] : buffers_) {
      buffer->FillStatus(status.add_buffer());
      buffers.push_back(buffer);
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    buffers[i]->FillRows(status.mutable_buffer(static_cast<int>(i)));
  }
  return status;
}

Coordinator::Counters CoordinatorImpl::counters() const {
  MutexLock lock(&mutex_);
  return counters_;
}

int32_t CoordinatorImpl::incarnation() const {
  MutexLock lock(&mutex_);
  return incarnation_;
}

OperatorReply CoordinatorImpl::Operate(const OperatorRequest& request) {
  absl::StatusOr<std::string> done;
  {
    MutexLock lock(&mutex_);
    done = CarryOut(request);
    if (!request.has_inspect()) journal_.NoteState();
    Schedule();
  }
  OperatorReply reply;
  reply.set_code(static_cast<int>(done.status().code()));
  reply.set_message(done.ok() ? *done : std::string(done.status().message()));
  *reply.mutable_status() = status();
  if (done.ok()) KeepNamed(request.inspect(), reply.mutable_status());
  DING_LOG_IF(INFO, !request.has_inspect())
      << "an operator asks: " << request.ShortDebugString() << ": " << reply.message();
  return reply;
}

absl::StatusOr<std::string> CoordinatorImpl::CarryOut(const OperatorRequest& request) {
  if (ended_ && !request.has_inspect()) {
    return absl::FailedPreconditionError(absl::StrCat("the run is over: ", end_reason_));
  }
  std::vector<std::string> buffers;
  for (const auto& [id, buffer] : buffers_) buffers.push_back(id);
  DING_ASSIGN_OR_RETURN(const OperatorCommands::Decision decision,
                        commands_.Decide(request, workers_, buffers));
  for (const uint32_t id : decision.drained) Drain(id, workers_.Find(id));
  if (decision.stops) End(absl::OkStatus(), kStopped);
  return decision.message;
}

void CoordinatorImpl::Drain(uint32_t id, Worker* worker) {
  worker->draining = true;
  scheduler_.Remove(worker->hello.role(), id);
  if (!worker->task.has_value()) LetGo(id);
}

void CoordinatorImpl::LetGo(uint32_t id) {
  CoordinatorMessage message;
  const std::string& sent_away = workers_.Find(id)->sent_away;
  message.mutable_end_run()->set_reason(sent_away.empty()
                                            ? "the worker is not needed any more"
                                            : absl::StrCat("the worker is sent away: ", sent_away));
  sender_->Send(id, message);
}

}  // namespace internal_coordinator
}  // namespace ding
