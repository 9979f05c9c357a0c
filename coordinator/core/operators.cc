// What operators see and request.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {
namespace {

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns kNotFound if neither a worker nor a buffer has this name.
absl::Status CheckKnown(const RunState& run, const std::string& name) {
  if (name.empty() || run.buffers.count(name) > 0) return absl::OkStatus();
  std::vector<std::string> known = run.workers.Names();
  if (Contains(known, name)) return absl::OkStatus();
  for (const auto& [id, buffer] : run.buffers) known.push_back(id);
  return absl::NotFoundError(
      absl::StrCat("there is neither a worker nor a buffer '", name, "', ",
                   known.empty() ? "and none at all yet"
                                 : absl::StrCat("expected one of: ", absl::StrJoin(known, ", "))));
}

// Changes the number of collectors that should be there. Surplus ones leave when their task is
// over.
absl::StatusOr<std::string> Resize(RunState* run, const OperatorRequest& request) {
  const int64_t by = request.has_grow() ? request.grow() : request.shrink();
  if (by < 1) {
    return absl::InvalidArgumentError(absl::StrCat(request.has_grow() ? "grow" : "shrink", " by ",
                                                   by, " collectors, expected at least 1"));
  }
  const int64_t wanted = run->wanted_collectors + (request.has_grow() ? by : -by);
  const int max_collectors = run->options.max_collectors;
  if (wanted < 0 || wanted > max_collectors) {
    return absl::InvalidArgumentError(
        absl::StrCat("that would be ", wanted, " collectors instead of ", run->wanted_collectors,
                     ", expected 0 to ", max_collectors, " (system.coordinator.max_collectors)"));
  }
  run->wanted_collectors = static_cast<int>(wanted);
  for (const uint32_t id : run->workers.Surplus(wanted)) Drain(run, run->workers.Find(id));
  return absl::StrCat(wanted, " collectors are wanted");
}

absl::StatusOr<std::string> DrainNamed(RunState* run, const std::string& name) {
  for (auto& [id, worker] : run->workers) {
    if (worker.hello.name() != name) continue;
    if (worker.hello.role() != Hello::COLLECTOR) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is a learner, expected a collector: the run needs its learner"));
    }
    if (worker.draining) {
      return absl::FailedPreconditionError(absl::StrCat(name, " is being drained already"));
    }
    run->wanted_collectors = std::max(0, run->wanted_collectors - 1);
    Drain(run, &worker);
    return absl::StrCat(name, " is drained; ", run->wanted_collectors, " collectors are wanted");
  }
  DING_RETURN_IF_ERROR(CheckKnown(*run, name));
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is a ", run->buffers.count(name) > 0 ? "buffer" : "learner",
                   ", expected a collector"));
}

// For a collector: the train iterations from the policy that it acts by to the newest version. For
// a learner: those from the policies of the rows that it drew last to its own, in the mean.
std::optional<double> StalenessOf(const RunState& run, const Worker& worker) {
  if (!worker.task.has_value()) return std::nullopt;
  const RunningTask& task = *worker.task;
  if (task.learns()) return task.buffer->staleness();
  if (task.acting_iter < 0) return std::nullopt;
  const int64_t newest = run.policies.NewestIter(task.collector().policy_id());
  return static_cast<double>(std::max<int64_t>(0, newest - task.acting_iter));
}

}  // namespace

RunStatus StatusOf(const RunState& run) {
  RunStatus status;
  status.set_run(run.options.run);
  const std::optional<double> eval_value = run.commander.Call(&BaseCommander::last_eval_value);
  run.progress.FillStatus(eval_value.has_value(), &status);
  if (eval_value.has_value()) {
    status.set_eval_value(*eval_value);
    for (const double episode_return : run.commander.Call(&BaseCommander::last_eval_returns)) {
      status.add_eval_return(episode_return);
    }
  }
  status.set_policy_version(run.policies.last_published());
  run.commander.Call(&BaseCommander::AddStatus, &status);
  if (run.ended) status.set_end_reason(run.end_reason);
  status.set_incarnation(run.incarnation);
  status.set_wanted_collectors(run.ended ? 0 : run.wanted_collectors);
  status.set_coordinator_pid(getpid());
  for (const std::string& warning : run.warnings) status.add_warning(warning);
  for (const auto& [kind, why] : run.unmet) status.add_warning(why);
  run.workers.FillStatus(run.now(), &status);
  for (WorkerStatus& worker : *status.mutable_worker()) {
    const std::optional<double> staleness = StalenessOf(run, *run.workers.Find(worker.worker()));
    if (!staleness.has_value()) continue;
    worker.set_staleness_iterations(*staleness);
    for (WorkerStatus& member : *worker.mutable_member()) {
      member.set_staleness_iterations(*staleness);
    }
  }
  for (const auto& [id, buffer] : run.buffers) buffer->FillStatus(status.add_buffer());
  return status;
}

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

absl::StatusOr<std::string> CarryOut(RunState* run, const OperatorRequest& request) {
  if (run->ended && !request.has_inspect()) {
    return absl::FailedPreconditionError(absl::StrCat("the run is over: ", run->end_reason));
  }
  switch (request.request_case()) {
    case OperatorRequest::kInspect:
      DING_RETURN_IF_ERROR(CheckKnown(*run, request.inspect()));
      return std::string();
    case OperatorRequest::kGrow:
    case OperatorRequest::kShrink:
      return Resize(run, request);
    case OperatorRequest::kDrain:
      return DrainNamed(run, request.drain());
    case OperatorRequest::kStop:
      run->stop_wanted = true;
      End(run, absl::OkStatus(), kStopped);
      return std::string("the run ends");
    default:
      return absl::InvalidArgumentError(
          "a request that is not known, expected inspect, grow, shrink, drain or stop");
  }
}

void Drain(RunState* run, Worker* worker) {
  run->workers.Drain(worker);
  if (!worker->task.has_value()) LetGo(run, *worker);
}

void LetGo(RunState* run, const Worker& worker) {
  CoordinatorMessage message;
  message.mutable_end_run()->set_reason(
      worker.sent_away.empty() ? "the worker is not needed any more"
                               : absl::StrCat("the worker is sent away: ", worker.sent_away));
  run->Send(worker.id, std::move(message));
}

}  // namespace internal_coordinator
}  // namespace ding
