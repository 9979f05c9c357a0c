#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/base_commander.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/task_buffer.h"
#include "ding_worker/interaction/messages.pb.h"
#include "glog/logging.h"

namespace ding {
namespace internal_coordinator {
namespace {

// Leaves of a status what is called so, also a learner of an aggregator; empty: all of it.
void KeepNamed(const std::string& name, RunStatus* status) {
  if (name.empty()) return;
  google::protobuf::RepeatedPtrField<WorkerStatus> named;
  for (const WorkerStatus& worker : status->worker()) {
    if (worker.name() == name) *named.Add() = worker;
    for (const WorkerStatus& member : worker.member()) {
      if (member.name() == name) *named.Add() = member;
    }
  }
  status->mutable_worker()->Swap(&named);
  auto* const buffers = status->mutable_buffer();
  buffers->erase(std::remove_if(buffers->begin(), buffers->end(),
                                [&name](const auto& buffer) { return buffer.buffer_id() != name; }),
                 buffers->end());
}

}  // namespace

int64_t CoordinatorImpl::EnvSteps() const {
  return progress_.finished_steps() + workers_.EnvSteps();
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
    status.set_incarnation(incarnation_);
    status.set_wanted_collectors(ended_ ? 0 : wanted_collectors_);
    status.set_coordinator_pid(getpid());
    for (const std::string& warning : warnings_) status.add_warning(warning);
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
    done = OperateLocked(request);
    if (!request.has_inspect()) journal_.NoteState();
    Schedule();
  }
  OperatorReply reply;
  reply.set_code(static_cast<int>(done.status().code()));
  reply.set_message(done.ok() ? *done : std::string(done.status().message()));
  *reply.mutable_status() = status();
  if (done.ok()) KeepNamed(request.inspect(), reply.mutable_status());
  LOG_IF(INFO, !request.has_inspect())
      << "an operator asks: " << request.ShortDebugString() << ": " << reply.message();
  return reply;
}

absl::StatusOr<std::string> CoordinatorImpl::OperateLocked(const OperatorRequest& request) {
  if (request.has_inspect()) {
    DING_RETURN_IF_ERROR(CheckKnown(request.inspect()));
    return "";
  }
  if (ended_) return absl::FailedPreconditionError(absl::StrCat("the run is over: ", end_reason_));
  switch (request.request_case()) {
    case OperatorRequest::kGrow:
    case OperatorRequest::kShrink: {
      const bool grow = request.has_grow();
      const int64_t by = grow ? request.grow() : request.shrink();
      if (by < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(grow ? "grow" : "shrink", " by ", by, " collectors, expected at least 1"));
      }
      return Want(wanted_collectors_ + (grow ? by : -by));
    }
    case OperatorRequest::kDrain:
      return DrainNamed(request.drain());
    case OperatorRequest::kStop:
      stop_wanted_ = true;
      End(absl::OkStatus(), kStopped);
      return "the run ends";
    default:
      return absl::InvalidArgumentError(
          "a request that is not known, expected inspect, grow, shrink, drain or stop");
  }
}

absl::Status CoordinatorImpl::CheckKnown(const std::string& name) const {
  if (name.empty() || buffers_.count(name) > 0) return absl::OkStatus();
  std::vector<std::string> known = workers_.Names();
  if (std::find(known.begin(), known.end(), name) != known.end()) return absl::OkStatus();
  for (const auto& [id, buffer] : buffers_) known.push_back(id);
  return absl::NotFoundError(
      absl::StrCat("there is neither a worker nor a buffer '", name, "', ",
                   known.empty() ? "and none at all yet"
                                 : absl::StrCat("expected one of: ", absl::StrJoin(known, ", "))));
}

absl::StatusOr<std::string> CoordinatorImpl::Want(int64_t collectors) {
  if (collectors < 0 || collectors > options_.max_collectors) {
    return absl::InvalidArgumentError(absl::StrCat(
        "that would be ", collectors, " collectors instead of ", wanted_collectors_,
        ", expected 0 to ", options_.max_collectors, " (system.coordinator.max_collectors)"));
  }
  wanted_collectors_ = static_cast<int>(collectors);
  for (const uint32_t id : workers_.Surplus(collectors)) Drain(id, workers_.Find(id));
  return absl::StrCat(collectors, " collectors are wanted");
}

absl::StatusOr<std::string> CoordinatorImpl::DrainNamed(const std::string& name) {
  for (auto& [id, worker] : workers_) {
    if (worker.hello.name() != name) continue;
    if (worker.hello.role() != Hello::COLLECTOR) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is a learner, expected a collector: the run needs its learner"));
    }
    if (worker.draining) {
      return absl::FailedPreconditionError(absl::StrCat(name, " is being drained already"));
    }
    wanted_collectors_ = std::max(0, wanted_collectors_ - 1);
    Drain(id, &worker);
    return absl::StrCat(name, " is drained; ", wanted_collectors_, " collectors are wanted");
  }
  DING_RETURN_IF_ERROR(CheckKnown(name));
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is a ", buffers_.count(name) > 0 ? "buffer" : "learner", ", expected a collector"));
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
