#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator_impl.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/unmet_resources.h"
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

}  // namespace

// Takes tasks from the commander, and gives them to free workers.
void CoordinatorImpl::Schedule() {
  if (!progress_.started() || ended_) return;
  CheckBudget();
  if (ended_) return;
  GiveBackExpired();
  if (ended_) return;
  NoteStalls();
  TakeTasks();
  CheckBudget();
  if (ended_) return;
  DropFinishedPolicies();
  const auto learn = [this](const LearnerTask& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !ended_ && StartLearnerTask(task);
  };
  const auto collect = [this](const CollectorTask& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !ended_ && StartCollectorTask(task);
  };
  scheduler_.OfferLearnerTasks(learn);
  AssignWitnesses();
  scheduler_.OfferCollectorTasks(collect);
  NoteUnmet();
  Persist().IgnoreError();  // The next call tries again.
  timer_.Signal();
}

void CoordinatorImpl::TakeTasks() {
  const int64_t now = deps_.clock->MonotonicNanos();
  while (!ended_) {
    std::optional<LearnerTask> task = commander_->GetLearnerTask();
    if (!task.has_value()) break;
    if (!task->setting().empty() && !HasValidSettings(ToStartTask(*task))) {
      commander_->NotifyFailLearnerTask(*task);
      continue;
    }
    journal_.NoteGiven(*task);
    scheduler_.Add(*std::move(task), now);
  }
  while (!ended_) {
    std::optional<CollectorTask> task = commander_->GetCollectorTask();
    if (!task.has_value()) break;
    if (!task->setting().empty() && !HasValidSettings(ToStartTask(*task))) {
      commander_->NotifyFailCollectorTask(*task);
      continue;
    }
    journal_.NoteGiven(*task);
    scheduler_.Add(*std::move(task), now);
  }
}

bool CoordinatorImpl::HasValidSettings(const StartTask& task) {
  const absl::Status valid =
      check_settings_ == nullptr
          ? absl::InvalidArgumentError("a task has settings, which this program does not take")
          : check_settings_(task);
  int& in_row = invalid_settings_[task.has_learner() ? Hello::LEARNER : Hello::COLLECTOR];
  in_row = valid.ok() ? 0 : in_row + 1;
  if (valid.ok()) return true;
  journal_.NoteCommander();
  Warn(std::string(valid.message()));
  if (in_row >= options_.max_task_failures) End(valid, "a task has invalid settings");
  return false;
}

void CoordinatorImpl::GiveBackExpired() {
  const int64_t now = deps_.clock->MonotonicNanos();
  while (const std::optional<LearnerTask> task = scheduler_.TakeExpiredLearnerTask(now)) {
    DING_LOG(WARNING) << "no learner took " << task->task_id() << " within "
                      << options_.learner_task_timeout;
    EndIfUnmet(Hello::LEARNER, task->task_id(), task->resources());
    journal_.NoteOver(task->task_id());
    commander_->NotifyFailLearnerTask(*task);
  }
  while (const std::optional<CollectorTask> task = scheduler_.TakeExpiredCollectorTask(now)) {
    DING_LOG(WARNING) << "no collector took " << task->task_id() << " within "
                      << options_.collector_task_timeout;
    EndIfUnmet(Hello::COLLECTOR, task->task_id(), task->resources());
    journal_.NoteOver(task->task_id());
    commander_->NotifyFailCollectorTask(*task);
  }
}

// Ends the run if no worker has the resources of the task. It goes on if a task of this kind was ever given to a
// worker: one with enough resources may come back.
void CoordinatorImpl::EndIfUnmet(Hello::Role kind, const std::string& task_id,
                                 const Resources& needed) {
  if (ended_ || scheduler_.HasAssigned(kind)) return;
  const std::optional<std::string> why = FindUnmet(kind, task_id, needed, workers_);
  if (why.has_value()) End(absl::FailedPreconditionError(*why), kUnmet);
}

bool CoordinatorImpl::AllHaveJoined(Hello::Role kind) const {
  const int64_t expected =
      kind == Hello::LEARNER
          ? scheduler_.waiting_learner_tasks()
          : std::max<int64_t>(options_.collectors, commands_.wanted_collectors());
  int64_t joined = 0;
  for (const auto& [id, worker] : workers_) {
    if (worker.hello.role() != kind || worker.draining) continue;
    if (worker.may_grow) return false;
    ++joined;
  }
  return joined >= expected;
}

void CoordinatorImpl::NoteUnmet() {
  if (ended_) return;
  std::map<Hello::Role, std::string> unmet;
  const auto see = [this, &unmet](Hello::Role kind, const std::string& task_id,
                                  const Resources& needed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (unmet.count(kind) > 0) return;
    const std::optional<std::string> why = FindUnmet(kind, task_id, needed, workers_);
    if (why.has_value()) unmet[kind] = *why;
  };
  scheduler_.ForEachWaiting(see);
  unmet_.swap(unmet);
  for (const auto& [kind, why] : unmet_) {
    if (unmet[kind] != why) DING_LOG(WARNING) << why;
    // A restarted coordinator waits, since its workers join again one after another.
    if (incarnation_ > 1 || scheduler_.HasAssigned(kind) || !AllHaveJoined(kind)) continue;
    End(absl::FailedPreconditionError(why), kUnmet);
    return;
  }
}

// Gives the task to a free learner. Returns false if the task has to wait.
bool CoordinatorImpl::StartLearnerTask(const LearnerTask& waiting) {
  const auto known = buffers_.find(waiting.buffer_id());
  if (known != buffers_.end() && known->second->learner().has_value()) return false;
  const std::optional<uint32_t> assigned = scheduler_.Assign(Hello::LEARNER, waiting.resources());
  if (!assigned.has_value()) return false;
  absl::StatusOr<std::shared_ptr<TaskBuffer>> buffer =
      BufferOf(waiting.buffer_id(), {waiting.setting().begin(), waiting.setting().end()});
  if (!buffer.ok()) {
    End(Annotate(buffer.status(), absl::StrCat("making ", waiting.buffer_id())), "a buffer failed");
    return false;
  }
  RunningTask task;
  task.state = {waiting.task_id(), Hello::LEARNER, *assigned, deps_.clock->MonotonicNanos()};
  task.learner = waiting;
  task.learner.set_first_version(policies_.Begin(waiting.policy_id()));
  if (options_.saved_policies.count(waiting.policy_id()) > 0) task.learner.set_resume(true);
  task.buffer = *std::move(buffer);
  task.buffer->set_learner(*assigned);
  task.progress_nanos = task.state.start_nanos;
  journal_.NoteState();
  CoordinatorMessage message;
  *message.mutable_start_task()->mutable_learner() = task.learner;
  workers_.Find(*assigned)->task = std::move(task);
  sender_->Send(*assigned, message);
  return true;
}

bool CoordinatorImpl::StartCollectorTask(const CollectorTask& waiting,
                                         std::optional<uint32_t> witness_of) {
  const auto buffer = buffers_.find(waiting.buffer_id());
  if (buffer == buffers_.end() || !buffer->second->started()) return false;
  const std::optional<uint32_t> assigned =
      scheduler_.Assign(Hello::COLLECTOR, waiting.resources(), /*except=*/witness_of);
  if (!assigned.has_value()) return false;
  RunningTask task;
  task.state = {waiting.task_id(), Hello::COLLECTOR, *assigned, deps_.clock->MonotonicNanos()};
  task.collector = waiting;
  task.buffer = buffer->second;
  const PolicyVersion* const newest = policies_.NewestStored(waiting.policy_id());
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
  task.collector.set_envstep(EnvSteps());
  CoordinatorMessage message;
  *message.mutable_start_task()->mutable_collector() = task.collector;
  workers_.Find(*assigned)->task = std::move(task);
  if (!waiting.eval_flag() && progress_.BeginCollecting()) journal_.NoteState();
  sender_->Send(*assigned, message);
  return true;
}

absl::StatusOr<std::shared_ptr<TaskBuffer>> CoordinatorImpl::BufferOf(
    const std::string& buffer_id, std::vector<std::string> settings) {
  const auto it = buffers_.find(buffer_id);
  if (it != buffers_.end()) return it->second;
  auto buffer = std::make_shared<TaskBuffer>(
      buffer_id,
      TaskBuffer::Limits{options_.replay_ratio, options_.random_collect_size, options_.rounds},
      std::move(settings));
  // The captured TaskBuffer owns the rows that call this function, so it lives for as long as they do. They call it
  // only while they are called themselves.
  const auto on_removed = [this, buffer = buffer.get()](const RemovedItems& removed) {
    MutexLock lock(&mutex_);
    buffer->Removed(removed);
    ForgetRemoved(buffer);
  };
  if (!buffer->settings().empty() && make_task_buffer_ == nullptr) {
    return absl::InvalidArgumentError("it has settings, which this program does not take");
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> rows,
                        buffer->settings().empty()
                            ? make_buffer_(buffer_id, on_removed)
                            : make_task_buffer_(buffer_id, buffer->settings(), on_removed));
  buffer->set_rows(std::move(rows));
  // If policies are trained one after the other, the next one continues the count of env steps.
  buffer->AddFinishedSteps(buffers_.empty() ? EnvSteps() : options_.first_env_step);
  buffers_[buffer_id] = buffer;
  return buffer;
}

// Ends the task of the worker, which is free afterwards. Returns the task.
RunningTask CoordinatorImpl::EndTask(uint32_t id, Worker* worker) {
  RunningTask task = *std::move(worker->task);
  worker->task.reset();
  worker->withheld_policy.reset();
  worker->stalled.clear();
  worker->waits_for.clear();
  if (task.state.kind == Hello::LEARNER) {
    task.buffer->ForgetLearner();
    ForgetRemoved(task.buffer.get());
  }
  progress_.AddFinishedSteps(task.counted_steps());
  task.buffer->AddFinishedSteps(task.counted_steps());
  journal_.NoteState();
  if (worker->draining) {
    LetGo(id);
  } else {
    scheduler_.SetFree(worker->hello.role(), id, worker->hello.resources());
  }
  changed_.SignalAll();
  return task;
}

void CoordinatorImpl::FailTask(uint32_t id, Worker* worker) {
  const RunningTask task = EndTask(id, worker);
  if (task.state.kind == Hello::LEARNER) {
    journal_.NoteOver(task.state.task_id);
    commander_->NotifyFailLearnerTask(task.learner);
  } else {
    GiveBack(task.collector);
  }
}

void CoordinatorImpl::CloseTask(uint32_t id, Worker* worker) {
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id(worker->task->state.task_id);
  sender_->Send(id, message);
}

// Ends the task of a learner that is done. Its buffer is closed, and with it end the tasks that collect for it;
// evaluations go on.
void CoordinatorImpl::FinishLearnerTask(uint32_t id, Worker* worker) {
  CloseTask(id, worker);
  const RunningTask finished = EndTask(id, worker);
  journal_.NoteOver(finished.state.task_id);
  commander_->FinishLearnerTask(finished.learner);
  policies_.Finish(finished.learner.policy_id());
  scheduler_.ForgetTrained(finished.learner.policy_id());
  finished.buffer->set_closed();
  buffers_.erase(finished.buffer->id());
  forgotten_buffers_.push_back(finished.buffer);
  for (auto& [other_id, other] : workers_) {
    if (!other.task.has_value() || other.task->buffer != finished.buffer) continue;
    if (other.task->collector.eval_flag()) continue;
    CloseTask(other_id, &other);
    FailTask(other_id, &other);
  }
  for (const CollectorTask& task : scheduler_.TakeCollectorTasksOf(finished.buffer->id())) {
    journal_.NoteOver(task.task_id());
    commander_->NotifyFailCollectorTask(task);
  }
}

// Deletes the last versions of policies that nobody learns or plays any more.
void CoordinatorImpl::DropFinishedPolicies() {
  const auto is_played = [this](const std::string& policy_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                             mutex_) { return workers_.IsPlayed(policy_id); };
  const auto is_kept = [this](const PolicyVersion& version)
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return IsKept(version); };
  ForgetKeys(policies_.DropFinished(is_played, is_kept));
}

// Whether the commander wants this version, or a task needs it.
bool CoordinatorImpl::IsKept(const PolicyVersion& version) const {
  if (ended_) return false;
  const auto plays = [&version](const CollectorTask& task) { return PlaysBy(task, version); };
  const auto evaluates = [&version](const CollectorTask& task) { return Evaluates(task, version); };
  const auto begins = [&version](const LearnerTask& task) { return BeginsWith(task, version); };
  // A version stays while a witness may have to evaluate it once more.
  return commander_->KeepsPolicy(version) || workers_.Needs(version) ||
         doubted_.HasWaitingTask(evaluates) || scheduler_.HasCollectorTask(plays) ||
         scheduler_.HasLearnerTask(begins);
}

void CoordinatorImpl::ForgetKeys(const std::vector<std::string>& keys) {
  forgotten_keys_.insert(forgotten_keys_.end(), keys.begin(), keys.end());
}

void CoordinatorImpl::ForgetChunks(const std::vector<int64_t>& chunks) {
  for (const int64_t chunk : chunks) forgotten_keys_.push_back(ChunkKey(chunk));
}

void CoordinatorImpl::ForgetRemoved(TaskBuffer* buffer) {
  const std::vector<int64_t> chunks = buffer->TakeDeletable();
  journal_.NoteRemoved(chunks);
  ForgetChunks(chunks);
}

// Forgets the chunks that a collector stored and could not announce before it left.
void CoordinatorImpl::ForgetUnannounced(uint32_t id, const Worker& worker) {
  const int64_t next = std::max(worker.newest_chunk + 1, ChunkNumber(id, 0));
  for (int64_t chunk = next; chunk < next + kMaxUnannouncedChunks; ++chunk) {
    // A worker that uses up its chunk numbers must not reach those of the next worker.
    if (WorkerOfChunk(chunk) != id) break;
    forgotten_keys_.push_back(ChunkKey(chunk));
  }
}

void CoordinatorImpl::DeleteForgotten() {
  while (true) {
    std::vector<std::shared_ptr<TaskBuffer>> buffers;
    std::vector<std::string> keys;
    {
      MutexLock lock(&mutex_);
      buffers.swap(forgotten_buffers_);
      keys.swap(forgotten_keys_);
      // The journal records the removal before the data are deleted. If it cannot be written, the
      // data count as lost when the coordinator is started again.
      journal_.PersistRemoved();
      // If another coordinator goes on with the run, its rows may need these data.
      if (!journal_.replaced().ok()) keys.clear();
    }
    if (buffers.empty() && keys.empty()) return;
    for (std::string& key : keys) remover_.Add(std::move(key));
    for (const std::shared_ptr<TaskBuffer>& buffer : buffers) buffer->rows()->Clear();
  }
}

}  // namespace internal_coordinator
}  // namespace ding
