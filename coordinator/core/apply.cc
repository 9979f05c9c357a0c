// What an event does: workers come and go, the run begins and ends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {
namespace {

constexpr size_t kMaxWarnings = 8;

void Start(RunState* run) {
  run->progress.Start();
  if (run->progress.converged()) End(run, absl::OkStatus(), "it had converged before");
  if (run->stop_wanted) End(run, absl::OkStatus(), kStopped);
  if (!run->stoppers.why().empty()) End(run, absl::OkStatus(), run->stoppers.why());
  Schedule(run);
}

absl::StatusOr<uint32_t> Admit(RunState* run, const Hello& hello) {
  DING_RETURN_IF_ERROR(CheckHelloFields(hello));
  DING_RETURN_IF_ERROR(run->workers.CheckNotSentAway(hello, run->now()));
  // Only the coordinator that the worker knew can tell that the worker was replaced. When that
  // coordinator died, the worker and its replacement may both have lost their sessions.
  if (hello.previous_incarnation() == run->incarnation) {
    for (const auto& [id, worker] : run->workers) {
      DING_RETURN_IF_ERROR(CheckNotReplaced(hello, worker.hello));
    }
  }
  // No key contains the number of an operator. It is not saved, and may be given again after a
  // restart.
  if (hello.role() != Hello::OPERATOR) run->records.NoteState();
  return run->workers.NewNumber();
}

void SendEnd(RunState* run, uint32_t worker) {
  CoordinatorMessage message;
  message.mutable_end_run()->set_converged(run->progress.converged());
  message.mutable_end_run()->set_reason(run->end_reason);
  run->Send(worker, std::move(message));
}

// Deletes the keys that a worker left under its previous number, except for those in use.
void ForgetPrevious(RunState* run, const Event::Joined& joined) {
  std::unordered_set<std::string> used;
  for (std::string& key : run->policies.StoredKeys()) used.insert(std::move(key));
  for (const std::string& key : joined.previous_key()) {
    if (used.count(key) == 0 && run->recovered_keys.count(key) == 0) ForgetKeys(run, {key});
  }
}

void Join(RunState* run, uint32_t id, const Event::Joined& joined) {
  const Hello& hello = joined.hello();
  ForgetPrevious(run, joined);
  Worker* const worker = run->workers.Add(id, hello, joined.peer(), run->now());
  run->records.NoteState();
  run->LogEventOf(EventKind::kJoin, hello.name(), LogSeverity::kInfo,
                  absl::StrCat(hello.name(), " joined as worker ", id, " from ", joined.peer()));
  if (run->ended) {
    SendEnd(run, id);
    return;
  }
  if (hello.role() == Hello::COLLECTOR && run->workers.collectors() > run->options.collectors) {
    run->commander.Call(&BaseCommander::IncreaseCollectorTaskSpace);
  }
  run->workers.SetFree(worker);
  if (run->workers.TakeWasDraining(hello)) Drain(run, worker);
  Schedule(run);
}

void Lose(RunState* run, uint32_t worker, const absl::Status& why) {
  Worker* const lost = run->workers.Find(worker);
  if (lost == nullptr) return;
  const Hello::Role role = lost->hello.role();
  run->records.NoteState();
  if (lost->held.has_value()) DropHeldData(run, lost);
  if (!run->ended) {
    run->LogEventOf(
        lost->draining ? EventKind::kLeave : EventKind::kFault, lost->hello.name(),
        LogSeverity::kWarning,
        absl::StrCat(lost->hello.name(), " (worker ", worker, ") is gone: ", why.ToString()));
    if (role == Hello::COLLECTOR && run->workers.collectors() > run->options.collectors) {
      run->commander.Call(&BaseCommander::DecreaseCollectorTaskSpace);
    }
    if (lost->task.has_value()) FailTask(run, lost);
    if (role == Hello::COLLECTOR) ForgetUnannounced(run, *lost);
  }
  run->workers.Remove(lost);
  run->retry_held = true;
  Schedule(run);
}

void Operate(RunState* run, const OperatorRequest& request, Outcome* outcome) {
  const absl::StatusOr<std::string> done = CarryOut(run, request);
  outcome->status = done.status();
  if (done.ok()) outcome->reply = *done;
  if (!request.has_inspect()) {
    run->records.NoteState();
    run->LogEventOf(done.ok() ? EventKind::kNone : EventKind::kRefusal, "", LogSeverity::kInfo,
                    absl::StrCat("an operator asks: ", request.ShortDebugString(), ": ",
                                 done.ok() ? *done : std::string(done.status().message())));
  }
  Schedule(run);
}

absl::Status StatusFrom(int code, const std::string& message) {
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

}  // namespace

RunState::RunState(const Coordinator::Options& run_options, Coordinator::Parts* parts,
                   int64_t now_nanos)
    : options(run_options),
      make_buffer(std::move(parts->make_buffer)),
      check_settings(std::move(parts->check_settings)),
      items(std::move(parts->items)),
      commander(std::move(parts->commander)),
      stoppers(std::move(parts->stoppers)),
      tasks(run_options.learner_task_timeout, run_options.collector_task_timeout),
      progress({run_options.max_env_step, run_options.max_train_iter, run_options.max_time,
                run_options.has_opponent},
               &clock),
      records(/*keeps=*/parts->journal != nullptr),
      wanted_collectors(run_options.wanted_collectors) {
  clock.Set(now_nanos);
  progress.AddEnvSteps(options.first_env_step);  // The steps in a journal replace these.
}

void RunState::Warn(const std::string& what, EventKind kind, std::string name) {
  LogEventOf(kind, std::move(name), LogSeverity::kWarning, what);
  warnings.push_back(what);
  if (warnings.size() > kMaxWarnings) warnings.pop_front();
}

Outcome Apply(const Event& event, RunState* run) {
  run->clock.Set(event.nanos());
  Outcome outcome;
  switch (event.event_case()) {
    case Event::kStart:
      Start(run);
      break;
    case Event::kAdmit: {
      const absl::StatusOr<uint32_t> number = Admit(run, event.admit());
      outcome.status = number.status();
      outcome.admitted = number.value_or(0);
      break;
    }
    case Event::kJoined:
      Join(run, event.worker(), event.joined());
      break;
    case Event::kLost:
      Lose(run, event.worker(), StatusFrom(event.lost().code(), event.lost().why()));
      break;
    case Event::kMessage:
      outcome.status = HandleMessage(run, event.worker(), event.message());
      break;
    case Event::kRequest:
      Operate(run, event.request(), &outcome);
      break;
    case Event::kTimer:
      Schedule(run);
      run->retry_held = true;
      break;
    case Event::kEnd:
      End(run, StatusFrom(event.end().code(), event.end().message()), event.end().reason());
      break;
    case Event::EVENT_NOT_SET:
      break;
  }
  // Events may come so often that the timer never does.
  if (run->Elapsed(run->written_nanos) >= kWritePeriod) run->records.NoteState();
  if (run->Elapsed(run->retried_nanos) >= kRetryPeriod) run->retry_held = true;
  while (run->retry_held && !run->held.empty()) RetryHeldData(run);
  if (!run->held.empty() && event.message().has_collector_data() && outcome.status.ok()) {
    const Worker* const sender = run->workers.Find(event.worker());
    outcome.waits = sender != nullptr && sender->held.has_value();
  }
  return outcome;
}

absl::Duration TimeToNextEvent(const RunState& run) {
  absl::Duration wait = std::min(run.commander.Call(&BaseCommander::AskAgainAfter),
                                 run.tasks.TimeToExpiry(run.now()));
  wait = std::min(wait, run.progress.TimeLeft());
  wait = std::min(wait, TimeToAskStoppers(run));
  for (const auto& [id, buffer] : run.buffers) {
    if (!buffer->learner().has_value()) continue;
    const Worker& learner = *run.workers.Find(*buffer->learner());
    if (!learner.task->stalls) wait = std::min(wait, TimeToStall(run, learner));
  }
  if (!run.held.empty()) wait = std::min(wait, kRetryPeriod);
  if (run.records.keeps()) wait = std::min(wait, kWritePeriod - run.Elapsed(run.written_nanos));
  return std::max(wait, absl::Milliseconds(1));
}

void CheckBudget(RunState* run) {
  if (run->ended) return;
  const absl::Status commands = run->commander.status();
  if (!commands.ok()) return End(run, commands, "the commander failed");
  const std::optional<std::string> used_up = run->progress.UsedUpBudget();
  if (used_up.has_value()) End(run, absl::OkStatus(), *used_up);
}

void End(RunState* run, const absl::Status& status, const std::string& reason) {
  if (run->ended) return;
  run->ended = true;
  run->progress.End();
  // WaitUntilDone() returns kDeadlineExceeded while the run goes on, so a task's error gets another
  // code.
  run->final_status =
      absl::IsDeadlineExceeded(status) ? absl::InternalError(status.message()) : status;
  run->end_reason = reason;
  run->Log(LogSeverity::kInfo,
           absl::StrCat("the run ends: ", reason, status.ok() ? "" : ": ", status.message()));
  for (auto& [id, worker] : run->workers) {
    SendEnd(run, id);
    if (worker.task.has_value()) FailTask(run, &worker);
  }
  DropDoubted(run);
  run->records.NoteState();
  run->retry_held = true;
}

void Forget(bool keeps_data, RunState* run) {
  for (const auto& [id, buffer] : std::exchange(run->buffers, {})) {
    buffer->set_closed();
    if (!keeps_data) buffer->rows()->Clear();
  }
  run->policies.FinishAll();
  if (!keeps_data) DropFinishedPolicies(run);
  if (!run->held.empty()) RetryHeldData(run);
}

}  // namespace internal_coordinator
}  // namespace ding
