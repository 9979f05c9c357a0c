// Which worker does what: gives the commander's tasks to workers, ends them, and has deleted what they leave.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/unmet_resources.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/items/removed_items.h"

namespace ding {
namespace internal_coordinator {
namespace {

// More than the chunks that a collector can have stored and not announced: at most eight announcements are
// under way, and one chunk is stored for the next.
constexpr int64_t kMaxUnannouncedChunks = 16;

constexpr char kUnmet[] = "no worker has the resources that a task needs";

StartTask ToStartTask(const LearnerTask& task) {
  StartTask start;
  *start.mutable_learner() = task;
  return start;
}

StartTask ToStartTask(const CollectorTask& task) {
  StartTask start;
  *start.mutable_collector() = task;
  return start;
}

bool HasValidSettings(RunState* run, const StartTask& task) {
  const absl::Status valid =
      run->check_settings == nullptr
          ? absl::InvalidArgumentError("a task has settings, which this program does not take")
          : run->check_settings(task);
  int& in_row = run->invalid_settings[task.has_learner() ? Hello::LEARNER : Hello::COLLECTOR];
  in_row = valid.ok() ? 0 : in_row + 1;
  if (valid.ok()) return true;
  run->records.NoteCommander();
  run->Warn(std::string(valid.message()));
  if (in_row >= run->options.max_task_failures) End(run, valid, "a task has invalid settings");
  return false;
}

void TakeTasks(RunState* run) {
  const int64_t now = run->now();
  while (!run->ended) {
    std::optional<LearnerTask> task = run->commander->GetLearnerTask();
    if (!task.has_value()) break;
    if (!task->setting().empty() && !HasValidSettings(run, ToStartTask(*task))) {
      run->commander->NotifyFailLearnerTask(*task);
      continue;
    }
    run->records.NoteGiven(*task);
    run->scheduler.Add(*std::move(task), now);
  }
  while (!run->ended) {
    std::optional<CollectorTask> task = run->commander->GetCollectorTask();
    if (!task.has_value()) break;
    if (!task->setting().empty() && !HasValidSettings(run, ToStartTask(*task))) {
      run->commander->NotifyFailCollectorTask(*task);
      continue;
    }
    run->records.NoteGiven(*task);
    run->scheduler.Add(*std::move(task), now);
  }
}

// Ends the run if no worker has the resources of the task. It goes on if a task of this kind was ever given to a
// worker: one with enough resources may come back.
void EndIfUnmet(RunState* run, Hello::Role kind, const std::string& task_id,
                const Resources& needed) {
  if (run->ended || run->scheduler.HasAssigned(kind)) return;
  const std::optional<std::string> why = FindUnmet(kind, task_id, needed, run->workers);
  if (why.has_value()) End(run, absl::FailedPreconditionError(*why), kUnmet);
}

void GiveBackExpired(RunState* run) {
  const int64_t now = run->now();
  while (const std::optional<LearnerTask> task = run->scheduler.TakeExpiredLearnerTask(now)) {
    run->Log(LogSeverity::kWarning,
             absl::StrCat("no learner took ", task->task_id(), " within ",
                          absl::FormatDuration(run->options.learner_task_timeout)));
    EndIfUnmet(run, Hello::LEARNER, task->task_id(), task->resources());
    run->records.NoteOver(task->task_id());
    run->commander->NotifyFailLearnerTask(*task);
  }
  while (const std::optional<CollectorTask> task = run->scheduler.TakeExpiredCollectorTask(now)) {
    run->Log(LogSeverity::kWarning,
             absl::StrCat("no collector took ", task->task_id(), " within ",
                          absl::FormatDuration(run->options.collector_task_timeout)));
    EndIfUnmet(run, Hello::COLLECTOR, task->task_id(), task->resources());
    run->records.NoteOver(task->task_id());
    run->commander->NotifyFailCollectorTask(*task);
  }
}

bool AllHaveJoined(const RunState& run, Hello::Role kind) {
  const int64_t expected =
      kind == Hello::LEARNER
          ? run.scheduler.waiting_learner_tasks()
          : std::max<int64_t>(run.options.collectors, run.commands.wanted_collectors());
  int64_t joined = 0;
  for (const auto& [id, worker] : run.workers) {
    if (worker.hello.role() != kind || worker.draining) continue;
    if (worker.may_grow) return false;
    ++joined;
  }
  return joined >= expected;
}

void NoteUnmet(RunState* run) {
  if (run->ended) return;
  std::map<Hello::Role, std::string> unmet;
  const auto see = [run, &unmet](Hello::Role kind, const std::string& task_id,
                                 const Resources& needed) {
    if (unmet.count(kind) > 0) return;
    const std::optional<std::string> why = FindUnmet(kind, task_id, needed, run->workers);
    if (why.has_value()) unmet[kind] = *why;
  };
  run->scheduler.ForEachWaiting(see);
  run->unmet.swap(unmet);
  for (const auto& [kind, why] : run->unmet) {
    if (unmet[kind] != why) run->Log(LogSeverity::kWarning, why);
    // A restarted coordinator waits, since its workers join again one after another.
    if (run->incarnation > 1 || run->scheduler.HasAssigned(kind) || !AllHaveJoined(*run, kind))
      continue;
    End(run, absl::FailedPreconditionError(why), kUnmet);
    return;
  }
}

// Gives the task to a free learner. Returns false if the task has to wait.
bool StartLearnerTask(RunState* run, const LearnerTask& waiting) {
  const auto known = run->buffers.find(waiting.buffer_id());
  if (known != run->buffers.end() && known->second->learner().has_value()) return false;
  const std::optional<uint32_t> assigned =
      run->scheduler.Assign(Hello::LEARNER, waiting.resources());
  if (!assigned.has_value()) return false;
  absl::StatusOr<std::shared_ptr<TaskBuffer>> buffer =
      BufferOf(run, waiting.buffer_id(), {waiting.setting().begin(), waiting.setting().end()});
  if (!buffer.ok()) {
    End(run, Annotate(buffer.status(), absl::StrCat("making ", waiting.buffer_id())),
        "a buffer failed");
    return false;
  }
  RunningTask task;
  task.state = {waiting.task_id(), Hello::LEARNER, *assigned, run->now()};
  task.learner = waiting;
  task.learner.set_first_version(run->policies.Begin(waiting.policy_id()));
  if (run->options.saved_policies.count(waiting.policy_id()) > 0) task.learner.set_resume(true);
  task.buffer = *std::move(buffer);
  task.buffer->set_learner(*assigned);
  task.progress_nanos = task.state.start_nanos;
  run->records.NoteState();
  CoordinatorMessage message;
  *message.mutable_start_task()->mutable_learner() = task.learner;
  run->workers.Find(*assigned)->task = std::move(task);
  run->Send(*assigned, message);
  return true;
}

void CloseTask(RunState* run, uint32_t id, Worker* worker) {
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id(worker->task->state.task_id);
  run->Send(id, message);
}

}  // namespace

// Takes tasks from the commander, and gives them to free workers.
void Schedule(RunState* run) {
  if (!run->progress.started() || run->ended) return;
  CheckBudget(run);
  AskStoppersIfDue(run);
  if (run->ended) return;
  GiveBackExpired(run);
  if (run->ended) return;
  NoteStalls(run);
  TakeTasks(run);
  CheckBudget(run);
  if (run->ended) return;
  DropFinishedPolicies(run);
  const auto learn = [run](const LearnerTask& task) {
    return !run->ended && StartLearnerTask(run, task);
  };
  const auto collect = [run](const CollectorTask& task) {
    return !run->ended && StartCollectorTask(run, task);
  };
  run->scheduler.OfferLearnerTasks(learn);
  AssignWitnesses(run);
  run->scheduler.OfferCollectorTasks(collect);
  NoteUnmet(run);
  run->effects.timer_changed = true;
}

bool StartCollectorTask(RunState* run, const CollectorTask& waiting,
                        std::optional<uint32_t> witness_of) {
  const auto buffer = run->buffers.find(waiting.buffer_id());
  if (buffer == run->buffers.end() || !buffer->second->started()) return false;
  const std::optional<uint32_t> assigned =
      run->scheduler.Assign(Hello::COLLECTOR, waiting.resources(), /*except=*/witness_of);
  if (!assigned.has_value()) return false;
  RunningTask task;
  task.state = {waiting.task_id(), Hello::COLLECTOR, *assigned, run->now()};
  task.collector = waiting;
  task.buffer = buffer->second;
  const PolicyVersion* const newest = run->policies.NewestStored(waiting.policy_id());
  if (newest != nullptr && !waiting.has_policy()) {
    *task.collector.mutable_policy() = *newest;
    for (TaskPlayer& player : *task.collector.mutable_player()) {
      if (player.update_policy()) *player.mutable_policy() = *newest;
    }
  }
  if (!waiting.eval_flag()) {
    // Few announcements may be under way: what they announce is collected beyond the bounds, or at random.
    if (task.buffer->has_rounds()) {
      task.collector.set_max_unacknowledged(0);
    } else if (task.buffer->holds_pushes() || task.buffer->wants_random_rows()) {
      task.collector.set_max_unacknowledged(1);
    }
    if (task.buffer->wants_random_rows()) task.collector.set_acts_at_random(true);
  }
  task.collector.set_envstep(run->EnvSteps());
  CoordinatorMessage message;
  *message.mutable_start_task()->mutable_collector() = task.collector;
  run->workers.Find(*assigned)->task = std::move(task);
  if (!waiting.eval_flag() && run->progress.BeginCollecting()) run->records.NoteState();
  run->Send(*assigned, message);
  return true;
}

absl::StatusOr<std::shared_ptr<TaskBuffer>> BufferOf(RunState* run, const std::string& buffer_id,
                                                     std::vector<std::string> settings) {
  const auto it = run->buffers.find(buffer_id);
  if (it != run->buffers.end()) return it->second;
  auto buffer = std::make_shared<TaskBuffer>(
      buffer_id,
      TaskBuffer::Limits{run->options.replay_ratio, run->options.random_collect_size,
                         run->options.rounds},
      std::move(settings));
  // The captured TaskBuffer owns the rows that call this function, so it lives for as long as they do. They call it
  // only while they are called themselves.
  const auto on_removed = [run, buffer = buffer.get()](const RemovedItems& removed) {
    buffer->Removed(removed);
    ForgetRemoved(run, buffer);
  };
  if (!buffer->settings().empty() && run->make_task_buffer == nullptr) {
    return absl::InvalidArgumentError("it has settings, which this program does not take");
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> rows,
                        buffer->settings().empty()
                            ? run->make_buffer(buffer_id, on_removed)
                            : run->make_task_buffer(buffer_id, buffer->settings(), on_removed));
  buffer->set_rows(std::move(rows));
  // If policies are trained one after the other, the next one continues the count of env steps.
  buffer->AddFinishedSteps(run->buffers.empty() ? run->EnvSteps() : run->options.first_env_step);
  run->buffers[buffer_id] = buffer;
  return buffer;
}

// Ends the task of the worker, which is free afterwards. Returns the task.
RunningTask EndTask(RunState* run, uint32_t id, Worker* worker) {
  RunningTask task = *std::move(worker->task);
  worker->task.reset();
  worker->withheld_policy.reset();
  worker->stalled.clear();
  worker->waits_for.clear();
  if (task.state.kind == Hello::LEARNER) {
    task.buffer->ForgetLearner();
    ForgetRemoved(run, task.buffer.get());
  }
  run->progress.AddFinishedSteps(task.counted_steps());
  task.buffer->AddFinishedSteps(task.counted_steps());
  run->records.NoteState();
  if (worker->draining) {
    LetGo(run, id);
  } else {
    run->scheduler.SetFree(worker->hello.role(), id, worker->hello.resources());
  }
  run->retry_held = true;
  return task;
}

void FailTask(RunState* run, uint32_t id, Worker* worker) {
  const RunningTask task = EndTask(run, id, worker);
  if (task.state.kind == Hello::LEARNER) {
    run->records.NoteOver(task.state.task_id);
    run->commander->NotifyFailLearnerTask(task.learner);
  } else {
    GiveBack(run, task.collector);
  }
}

// Ends the task of a learner that is done. Its buffer is closed, and with it end the tasks that collect for it;
// evaluations go on.
void FinishLearnerTask(RunState* run, uint32_t id, Worker* worker) {
  CloseTask(run, id, worker);
  const RunningTask finished = EndTask(run, id, worker);
  run->records.NoteOver(finished.state.task_id);
  run->commander->FinishLearnerTask(finished.learner);
  run->policies.Finish(finished.learner.policy_id());
  run->scheduler.ForgetTrained(finished.learner.policy_id());
  finished.buffer->set_closed();
  run->buffers.erase(finished.buffer->id());
  finished.buffer->rows()->Clear();
  for (auto& [other_id, other] : run->workers) {
    if (!other.task.has_value() || other.task->buffer != finished.buffer) continue;
    if (other.task->collector.eval_flag()) continue;
    CloseTask(run, other_id, &other);
    FailTask(run, other_id, &other);
  }
  for (const CollectorTask& task : run->scheduler.TakeCollectorTasksOf(finished.buffer->id())) {
    run->records.NoteOver(task.task_id());
    run->commander->NotifyFailCollectorTask(task);
  }
}

// Deletes the last versions of policies that nobody learns or plays any more.
void DropFinishedPolicies(RunState* run) {
  const auto is_played = [run](const std::string& policy_id) {
    return run->workers.IsPlayed(policy_id);
  };
  const auto is_kept = [run](const PolicyVersion& version) { return IsKept(*run, version); };
  ForgetKeys(run, run->policies.DropFinished(is_played, is_kept));
}

// Whether the commander wants this version, or a task needs it.
bool IsKept(const RunState& run, const PolicyVersion& version) {
  if (run.ended) return false;
  const auto plays = [&version](const CollectorTask& task) { return PlaysBy(task, version); };
  const auto evaluates = [&version](const CollectorTask& task) { return Evaluates(task, version); };
  const auto begins = [&version](const LearnerTask& task) { return BeginsWith(task, version); };
  // A version stays while a witness may have to evaluate it once more.
  return run.commander->KeepsPolicy(version) || run.workers.Needs(version) ||
         run.doubted.HasWaitingTask(evaluates) || run.scheduler.HasCollectorTask(plays) ||
         run.scheduler.HasLearnerTask(begins);
}

void ForgetKeys(RunState* run, const std::vector<std::string>& keys) {
  run->effects.deleted.insert(run->effects.deleted.end(), keys.begin(), keys.end());
}

void ForgetChunks(RunState* run, const std::vector<int64_t>& chunks) {
  for (const int64_t chunk : chunks) run->effects.deleted.push_back(ChunkKey(chunk));
}

void ForgetRemoved(RunState* run, TaskBuffer* buffer) {
  const std::vector<int64_t> chunks = buffer->TakeDeletable();
  run->records.NoteRemoved(chunks);
  ForgetChunks(run, chunks);
}

// Forgets the chunks that a collector stored and could not announce before it left.
void ForgetUnannounced(RunState* run, uint32_t id, const Worker& worker) {
  const int64_t next = std::max(worker.newest_chunk + 1, ChunkNumber(id, 0));
  for (int64_t chunk = next; chunk < next + kMaxUnannouncedChunks; ++chunk) {
    // A worker that uses up its chunk numbers must not reach those of the next worker.
    if (WorkerOfChunk(chunk) != id) break;
    run->effects.deleted.push_back(ChunkKey(chunk));
  }
}

}  // namespace internal_coordinator
}  // namespace ding
