// Which worker does what: gives the commander's tasks to workers, ends them, and has deleted what
// they leave.
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
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_queue.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {
namespace internal_coordinator {
namespace {

// More than the chunks that a collector can have stored and not announced: at most eight
// announcements are under way, and one chunk is stored for the next.
constexpr int64_t kMaxUnannouncedChunks = 16;

constexpr char kUnmet[] = "no worker has the resources that a task needs";

StartTask ToStartTask(LearnerTask task) {
  StartTask start;
  *start.mutable_learner() = std::move(task);
  return start;
}

StartTask ToStartTask(CollectorTask task) {
  StartTask start;
  *start.mutable_collector() = std::move(task);
  return start;
}

// More would be too long for a message; it is far more than what a policy is told.
constexpr size_t kMaxTensorsBytes = size_t{1} << 20;

absl::Status CheckCollectTensors(const CollectorTask& task) {
  if (!task.has_collect_tensors()) return absl::OkStatus();
  const std::string source = absl::StrCat("collect_tensors of ", task.task_id());
  const std::string& bytes = task.collect_tensors();
  if (bytes.size() <= kMaxTensorsBytes) return Annotate(DecodeState(bytes, "").status(), source);
  return absl::InvalidArgumentError(
      absl::StrCat(source, " have ", bytes.size(), " bytes, expected at most ", kMaxTensorsBytes));
}

absl::Status CheckSettings(const RunState& run, const StartTask& task) {
  DING_RETURN_IF_ERROR(CheckCollectTensors(task.collector()));
  if (VisitTask(task, [](const auto& of) { return of.setting().empty(); })) return absl::OkStatus();
  return run.check_settings == nullptr
             ? absl::InvalidArgumentError("a task has settings, which this program does not take")
             : CallUser("check_settings", [&] { return run.check_settings(task); });
}

bool HasValidSettings(RunState* run, const StartTask& task) {
  const bool has_none = VisitTask(task, [](const auto& of) { return of.setting().empty(); });
  if (has_none && !task.collector().has_collect_tensors()) return true;
  const absl::Status valid = CheckSettings(*run, task);
  int& in_row = run->invalid_settings[RoleOf(task)];
  in_row = valid.ok() ? 0 : in_row + 1;
  if (valid.ok()) return true;
  run->records.NoteCommander();
  run->Warn(std::string(valid.message()));
  if (in_row >= run->options.max_task_failures) End(run, valid, "a task has invalid settings");
  return false;
}

// Takes all tasks that the commander gives now; `take` asks it for one.
template <typename Take>
void TakeTasks(RunState* run, Take take) {
  while (!run->ended) {
    auto task = take();
    if (!task.has_value()) return;
    StartTask start = ToStartTask(*std::move(task));
    if (HasValidSettings(run, start)) {
      run->records.NoteGiven(start);
      run->tasks.Add(std::move(start), run->now());
    } else {
      NotifyFail(run, start);
    }
  }
}

void GiveBackExpired(RunState* run) {
  while (const std::optional<StartTask> task = run->tasks.TakeExpired(run->now())) {
    const bool learns = task->has_learner();
    run->Log(LogSeverity::kWarning,
             absl::StrCat("no ", RoleName(RoleOf(*task)), " took ", TaskIdOf(*task), " within ",
                          absl::FormatDuration(learns ? run->options.learner_task_timeout
                                                      : run->options.collector_task_timeout)));
    // If a task of this kind was ever given to a worker, one with enough resources may come back.
    const std::optional<std::string> why =
        run->workers.HasAssigned(RoleOf(*task)) ? std::nullopt : run->workers.WhyUnmet(*task);
    if (why.has_value()) End(run, absl::FailedPreconditionError(*why), kUnmet);
    NotifyFail(run, *task);
  }
}

bool AllHaveJoined(const RunState& run, Hello::Role role) {
  const int64_t expected = role == Hello::LEARNER
                               ? static_cast<int64_t>(run.tasks.For(role).size())
                               : std::max(run.options.collectors, run.wanted_collectors);
  int64_t joined = 0;
  for (const auto& [id, worker] : run.workers) {
    if (worker.hello.role() != role || worker.draining) continue;
    if (worker.may_grow) return false;
    ++joined;
  }
  return joined >= expected;
}

void NoteUnmet(RunState* run) {
  if (run->ended) return;
  std::map<Hello::Role, std::string> unmet;
  for (const Hello::Role role : {Hello::LEARNER, Hello::COLLECTOR}) {
    for (const TaskQueue::Waiting& waiting : run->tasks.For(role)) {
      const std::optional<std::string> why = run->workers.WhyUnmet(waiting.task);
      if (!why.has_value()) continue;
      unmet[role] = *why;
      break;
    }
  }
  run->unmet.swap(unmet);
  for (const auto& [role, why] : run->unmet) {
    if (unmet[role] != why) run->Log(LogSeverity::kWarning, why);
    // A restarted coordinator waits, since its workers join again one after another.
    if (run->incarnation > 1 || run->workers.HasAssigned(role) || !AllHaveJoined(*run, role))
      continue;
    End(run, absl::FailedPreconditionError(why), kUnmet);
    return;
  }
}

// Sends the task to the worker.
void Begin(RunState* run, StartTask start, std::shared_ptr<TaskBuffer> buffer, Worker* worker) {
  RunningTask task;
  task.start = std::move(start);
  task.start_nanos = task.progress_nanos = run->now();
  if (task.collector().has_policy()) task.acting_iter = task.collector().policy().train_iter();
  task.buffer = std::move(buffer);
  if (task.collects()) task.buffer->AddCollecting(1);
  CoordinatorMessage message;
  *message.mutable_start_task() = task.start;
  worker->task = std::move(task);
  run->Send(worker->id, std::move(message));
}

// Gives the task to a free learner. Returns false if the task has to wait.
bool StartLearnerTask(RunState* run, const LearnerTask& waiting) {
  const auto known = run->buffers.find(waiting.buffer_id());
  if (known != run->buffers.end() && known->second->learner().has_value()) return false;
  Worker* const worker = run->workers.Assign(Hello::LEARNER, waiting.resources());
  if (worker == nullptr) return false;
  absl::StatusOr<std::shared_ptr<TaskBuffer>> buffer =
      BufferOf(run, waiting.buffer_id(), {waiting.setting().begin(), waiting.setting().end()});
  if (!buffer.ok()) {
    End(run, Annotate(buffer.status(), absl::StrCat("making ", waiting.buffer_id())),
        "a buffer failed");
    return false;
  }
  LearnerTask task = waiting;
  task.set_first_version(run->policies.Begin(waiting.policy_id()));
  if (run->options.saved_policies.count(waiting.policy_id()) > 0) task.set_resume(true);
  (*buffer)->set_learner(worker->id);
  run->records.NoteState();
  Begin(run, ToStartTask(std::move(task)), *std::move(buffer), worker);
  return true;
}

void CloseTask(RunState* run, const Worker& worker) {
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id(worker.task->id());
  run->Send(worker.id, std::move(message));
}

}  // namespace

void Schedule(RunState* run) {
  if (!run->progress.started() || run->ended) return;
  CheckBudget(run);
  AskStoppersIfDue(run);
  if (run->ended) return;
  GiveBackExpired(run);
  if (run->ended) return;
  NoteStalls(run);
  TakeTasks(run, [run] { return run->commander.Call(&BaseCommander::GetLearnerTask); });
  TakeTasks(run, [run] { return run->commander.Call(&BaseCommander::GetCollectorTask); });
  CheckBudget(run);
  if (run->ended) return;
  DropFinishedPolicies(run);
  run->tasks.TakeIf(Hello::LEARNER, [run](const StartTask& task) {
    return !run->ended && StartLearnerTask(run, task.learner());
  });
  AssignWitnesses(run);
  run->tasks.TakeIf(Hello::COLLECTOR, [run](const StartTask& task) {
    return !run->ended && StartCollectorTask(run, task.collector());
  });
  NoteUnmet(run);
  run->effects.timer_changed = true;
}

bool StartCollectorTask(RunState* run, const CollectorTask& waiting,
                        std::optional<uint32_t> except) {
  const auto found = run->buffers.find(waiting.buffer_id());
  if (found == run->buffers.end() || !found->second->started()) return false;
  const std::shared_ptr<TaskBuffer>& buffer = found->second;
  Worker* const worker = run->workers.Assign(Hello::COLLECTOR, waiting.resources(), except);
  if (worker == nullptr) return false;
  CollectorTask task = waiting;
  const PolicyVersion* const newest = run->policies.NewestStored(waiting.policy_id());
  if (newest != nullptr && !waiting.has_policy()) {
    *task.mutable_policy() = *newest;
    for (TaskPlayer& player : *task.mutable_player()) {
      if (player.update_policy()) *player.mutable_policy() = *newest;
    }
  }
  if (!waiting.eval_flag()) {
    // Few announcements may be under way: what they announce is collected beyond the bounds, or at
    // random.
    if (buffer->has_rounds()) {
      task.set_max_unacknowledged(0);
    } else if (buffer->holds_pushes() || buffer->wants_random_rows()) {
      task.set_max_unacknowledged(1);
    }
    if (buffer->wants_random_rows()) task.set_acts_at_random(true);
    if (run->progress.BeginCollecting()) run->records.NoteState();
  }
  task.set_envstep(run->EnvSteps());
  Begin(run, ToStartTask(std::move(task)), buffer, worker);
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
  // The captured TaskBuffer owns the rows that call this function, so it lives for as long as they
  // do. They call it only while they are called themselves.
  const auto on_removed = [run, buffer = buffer.get()](const RemovedItems& removed) {
    buffer->Removed(removed);
    ForgetRemoved(run, buffer);
  };
  if (!buffer->settings().empty() && run->check_settings == nullptr) {
    return absl::InvalidArgumentError("it has settings, which this program does not take");
  }
  constexpr char kMake[] = "the function that makes buffers";
  DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> rows, CallUser(kMake, [&] {
                          return run->make_buffer(buffer_id, buffer->settings(), on_removed);
                        }));
  if (rows == nullptr) return absl::InternalError(absl::StrCat(kMake, " returned none"));
  buffer->set_rows(GuardBuffer(std::move(rows)));
  // If policies are trained one after the other, the next one continues the count of env steps.
  buffer->AddEnvSteps(run->buffers.empty() ? run->EnvSteps() : run->options.first_env_step);
  run->buffers[buffer_id] = buffer;
  return buffer;
}

RunningTask EndTask(RunState* run, Worker* worker) {
  RunningTask task = *std::move(worker->task);
  worker->task.reset();
  worker->withheld_policy.reset();
  worker->stalled.clear();
  worker->waits_for.clear();
  if (task.learns()) {
    task.buffer->ForgetLearner();
    ForgetRemoved(run, task.buffer.get());
  }
  if (task.collects() && !task.holds_back) task.buffer->AddCollecting(-1);
  run->records.NoteState();
  if (worker->draining) {
    LetGo(run, *worker);
  } else {
    run->workers.SetFree(worker);
  }
  run->retry_held = true;
  return task;
}

void FailTask(RunState* run, Worker* worker) {
  const RunningTask task = EndTask(run, worker);
  if (run->lockstep() && !task.buffer->closed()) {
    End(run,
        absl::AbortedError(absl::StrCat(
            task.id(),
            " has failed, and a run in lockstep (system.lockstep) cannot go on "
            "without it: expected a new run with the same seed, which gives the same")),
        "a task has failed");
  }
  if (task.learns()) {
    NotifyFail(run, task.start);
  } else {
    GiveBack(run, task.collector());
  }
}

void NotifyFail(RunState* run, const StartTask& task) {
  if (!task.has_learner()) return NotifyFail(run, task.collector());
  run->records.NoteOver(task.learner().task_id());
  run->commander.Call(&BaseCommander::NotifyFailLearnerTask, task.learner());
}

void NotifyFail(RunState* run, const CollectorTask& task) {
  run->records.NoteOver(task.task_id());
  run->commander.Call(&BaseCommander::NotifyFailCollectorTask, task);
}

// Ends the task of a learner that is done. Its buffer is closed, and with it end the tasks that
// collect for it; evaluations go on.
void FinishLearnerTask(RunState* run, Worker* worker) {
  CloseTask(run, *worker);
  const RunningTask finished = EndTask(run, worker);
  const std::string& policy_id = finished.learner().policy_id();
  run->records.NoteOver(finished.id());
  const std::string closed =
      run->commander.Call(&BaseCommander::FinishLearnerTask, finished.learner());
  if (run->commander.status().ok() && closed != finished.buffer->id()) {
    End(run,
        absl::InternalError(absl::StrCat("FinishLearnerTask() returned the buffer \"", closed,
                                         "\" for ", finished.id(), ", expected \"",
                                         finished.buffer->id(), "\", the task's own")),
        "the commander failed");
  }
  run->policies.Finish(policy_id);
  // Another task of the policy may begin with its first iteration.
  run->furthest_iter.erase(policy_id);
  for (const Hello::Role role : {Hello::COLLECTOR, Hello::LEARNER}) {
    run->failures.erase({role, policy_id});
  }
  finished.buffer->set_closed();
  run->buffers.erase(finished.buffer->id());
  finished.buffer->rows()->Clear();
  for (auto& [other_id, other] : run->workers) {
    if (!other.task.has_value() || other.task->buffer != finished.buffer) continue;
    if (!other.task->collects()) continue;
    CloseTask(run, other);
    FailTask(run, &other);
  }
  run->tasks.TakeIf(Hello::COLLECTOR, [run, &finished](const StartTask& task) {
    if (BufferIdOf(task) != finished.buffer->id()) return false;
    NotifyFail(run, task);
    return true;
  });
}

// Deletes the last versions of policies that no task learns or plays any more.
void DropFinishedPolicies(RunState* run) {
  const auto is_played = [run](const std::string& policy_id) {
    return run->workers.IsPlayed(policy_id);
  };
  const auto is_kept = [run](const PolicyVersion& version) { return IsKept(*run, version); };
  ForgetKeys(run, run->policies.DropFinished(is_played, is_kept));
}

bool IsKept(const RunState& run, const PolicyVersion& version) {
  if (run.ended) return false;
  // What a commander that has failed may need stays.
  if (run.commander.Call(&BaseCommander::KeepsPolicy, version) || !run.commander.status().ok() ||
      run.workers.Needs(version)) {
    return true;
  }
  for (const Hello::Role role : {Hello::COLLECTOR, Hello::LEARNER}) {
    for (const TaskQueue::Waiting& waiting : run.tasks.For(role)) {
      if (NeedsVersion(waiting.task, version)) return true;
    }
  }
  // A version stays while a witness may have to evaluate it once more.
  return std::any_of(run.doubted.begin(), run.doubted.end(), [&](const DoubtedEvaluation& doubted) {
    return doubted.waits && doubted.witness_task.policy().key() == version.key();
  });
}

void ForgetKeys(RunState* run, const std::vector<std::string>& keys) {
  run->effects.deleted.insert(run->effects.deleted.end(), keys.begin(), keys.end());
}

void ForgetChunks(RunState* run, const std::vector<int64_t>& chunks) {
  for (const int64_t chunk : chunks) run->effects.deleted.push_back(ChunkKey(chunk));
}

void ForgetRemoved(RunState* run, TaskBuffer* buffer) {
  const std::vector<int64_t> chunks = buffer->chunks()->TakeDeletable();
  run->records.NoteRemoved(chunks);
  ForgetChunks(run, chunks);
}

// Forgets the chunks that a collector stored and could not announce before it left.
void ForgetUnannounced(RunState* run, const Worker& worker) {
  const int64_t next = std::max(worker.newest_chunk + 1, ChunkNumber(worker.id, 0));
  for (int64_t chunk = next; chunk < next + kMaxUnannouncedChunks; ++chunk) {
    // A worker that uses up its chunk numbers must not reach those of the next worker.
    if (WorkerOfChunk(chunk) != worker.id) break;
    run->effects.deleted.push_back(ChunkKey(chunk));
  }
}

}  // namespace internal_coordinator
}  // namespace ding
