// What operators see and request.
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/operator_commands.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {

RunStatus StatusOf(const RunState& run) {
  RunStatus status;
  status.set_run(run.options.run);
  const std::optional<double> eval_value = run.commander->last_eval_value();
  run.progress.FillStatus(run.EnvSteps(), eval_value.has_value(), &status);
  if (eval_value.has_value()) {
    status.set_eval_value(*eval_value);
    for (const double episode_return : run.commander->last_eval_returns()) {
      status.add_eval_return(episode_return);
    }
  }
  status.set_policy_version(run.policies.last_published());
  run.commander->AddStatus(&status);
  if (run.ended) status.set_end_reason(run.end_reason);
  status.set_incarnation(run.incarnation);
  status.set_wanted_collectors(run.ended ? 0 : run.commands.wanted_collectors());
  status.set_coordinator_pid(getpid());
  for (const std::string& warning : run.warnings) status.add_warning(warning);
  for (const auto& [kind, why] : run.unmet) status.add_warning(why);
  run.workers.FillStatus(run.now(), &status);
  for (const auto& [id, buffer] : run.buffers) buffer->FillStatus(status.add_buffer());
  return status;
}

absl::StatusOr<std::string> CarryOut(RunState* run, const OperatorRequest& request) {
  if (run->ended && !request.has_inspect()) {
    return absl::FailedPreconditionError(absl::StrCat("the run is over: ", run->end_reason));
  }
  std::vector<std::string> buffers;
  for (const auto& [id, buffer] : run->buffers) buffers.push_back(id);
  DING_ASSIGN_OR_RETURN(const OperatorCommands::Decision decision,
                        run->commands.Decide(request, run->workers, buffers));
  for (const uint32_t id : decision.drained) Drain(run, id, run->workers.Find(id));
  if (decision.stops) End(run, absl::OkStatus(), kStopped);
  return decision.message;
}

void Drain(RunState* run, uint32_t id, Worker* worker) {
  worker->draining = true;
  run->scheduler.Remove(worker->hello.role(), id);
  if (!worker->task.has_value()) LetGo(run, id);
}

void LetGo(RunState* run, uint32_t id) {
  CoordinatorMessage message;
  const std::string& sent_away = run->workers.Find(id)->sent_away;
  message.mutable_end_run()->set_reason(sent_away.empty()
                                            ? "the worker is not needed any more"
                                            : absl::StrCat("the worker is sent away: ", sent_away));
  run->Send(id, std::move(message));
}

}  // namespace internal_coordinator
}  // namespace ding
