#include "ding_worker/coordinator/state/operator_commands.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace internal_coordinator {
namespace {

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns kNotFound if neither a worker nor a buffer has this name.
absl::Status CheckKnown(const std::string& name, const WorkerRoster& workers,
                        const std::vector<std::string>& buffers) {
  if (name.empty() || Contains(buffers, name)) return absl::OkStatus();
  std::vector<std::string> known = workers.Names();
  if (Contains(known, name)) return absl::OkStatus();
  known.insert(known.end(), buffers.begin(), buffers.end());
  return absl::NotFoundError(
      absl::StrCat("there is neither a worker nor a buffer '", name, "', ",
                   known.empty() ? "and none at all yet"
                                 : absl::StrCat("expected one of: ", absl::StrJoin(known, ", "))));
}

}  // namespace

absl::StatusOr<OperatorCommands::Decision> OperatorCommands::Decide(
    const OperatorRequest& request, const WorkerRoster& workers,
    const std::vector<std::string>& buffers) {
  switch (request.request_case()) {
    case OperatorRequest::kInspect:
      DING_RETURN_IF_ERROR(CheckKnown(request.inspect(), workers, buffers));
      return Decision();
    case OperatorRequest::kGrow:
    case OperatorRequest::kShrink: {
      const bool grow = request.has_grow();
      const int64_t by = grow ? request.grow() : request.shrink();
      if (by < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(grow ? "grow" : "shrink", " by ", by, " collectors, expected at least 1"));
      }
      return Want(wanted_collectors_ + (grow ? by : -by), workers);
    }
    case OperatorRequest::kDrain:
      return Drain(request.drain(), workers, buffers);
    case OperatorRequest::kStop: {
      stop_wanted_ = true;
      Decision decision;
      decision.message = "the run ends";
      decision.stops = true;
      return decision;
    }
    default:
      return absl::InvalidArgumentError(
          "a request that is not known, expected inspect, grow, shrink, drain or stop");
  }
}

absl::StatusOr<OperatorCommands::Decision> OperatorCommands::Want(int64_t collectors,
                                                                  const WorkerRoster& workers) {
  if (collectors < 0 || collectors > max_collectors_) {
    return absl::InvalidArgumentError(
        absl::StrCat("that would be ", collectors, " collectors instead of ", wanted_collectors_,
                     ", expected 0 to ", max_collectors_, " (system.coordinator.max_collectors)"));
  }
  wanted_collectors_ = static_cast<int>(collectors);
  Decision decision;
  decision.drained = workers.Surplus(collectors);
  decision.message = absl::StrCat(collectors, " collectors are wanted");
  return decision;
}

absl::StatusOr<OperatorCommands::Decision> OperatorCommands::Drain(
    const std::string& name, const WorkerRoster& workers, const std::vector<std::string>& buffers) {
  for (const auto& [id, worker] : workers) {
    if (worker.hello.name() != name) continue;
    if (worker.hello.role() != Hello::COLLECTOR) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is a learner, expected a collector: the run needs its learner"));
    }
    if (worker.draining) {
      return absl::FailedPreconditionError(absl::StrCat(name, " is being drained already"));
    }
    wanted_collectors_ = std::max(0, wanted_collectors_ - 1);
    Decision decision;
    decision.drained = {id};
    decision.message =
        absl::StrCat(name, " is drained; ", wanted_collectors_, " collectors are wanted");
    return decision;
  }
  DING_RETURN_IF_ERROR(CheckKnown(name, workers, buffers));
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is a ", Contains(buffers, name) ? "buffer" : "learner", ", expected a collector"));
}

void OperatorCommands::Save(StateRecord* state) const {
  state->set_wanted_collectors(wanted_collectors_);
  state->set_stop_wanted(stop_wanted_);
}

void OperatorCommands::Load(const StateRecord& state, bool goes_on_after_stop) {
  wanted_collectors_ = state.wanted_collectors();
  stop_wanted_ = state.stop_wanted() && !goes_on_after_stop;
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

}  // namespace internal_coordinator
}  // namespace ding
