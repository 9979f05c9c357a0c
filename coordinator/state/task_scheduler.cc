#include "ding_worker/coordinator/state/task_scheduler.h"

#include <algorithm>
#include <utility>

namespace ding {
namespace {

// Returns the time until the first task expires, which is the one at the front of the queue.
template <typename Queue>
absl::Duration TimeToExpiry(const Queue& queue, absl::Duration timeout, int64_t now_nanos) {
  if (queue.empty()) return absl::InfiniteDuration();
  return timeout - absl::Nanoseconds(now_nanos - queue.front().since_nanos);
}

template <typename Task, typename Queue>
std::optional<Task> TakeExpired(absl::Duration timeout, int64_t now_nanos, Queue* queue) {
  if (TimeToExpiry(*queue, timeout, now_nanos) > absl::ZeroDuration()) return std::nullopt;
  Task task = std::move(queue->front().task);
  queue->pop_front();
  return task;
}

// Removes the tasks for which `take` returns true. Meanwhile `take` may add others.
template <typename Queue, typename Take>
void TakeIf(Take take, Queue* queue) {
  Queue waiting;
  waiting.swap(*queue);
  for (auto& entry : waiting) {
    if (!take(entry.task)) queue->push_back(std::move(entry));
  }
}

}  // namespace

void TaskScheduler::SetFree(Hello::Role role, uint32_t worker, const Resources& resources) {
  resources_.Update(role, worker, resources);
}

void TaskScheduler::Remove(Hello::Role role, uint32_t worker) {
  resources_.Delete(role, worker);
  worker_failures_.erase(worker);
}

std::optional<uint32_t> TaskScheduler::Assign(Hello::Role role, const Resources& needed,
                                              std::optional<uint32_t> except) {
  const std::optional<AssignedWorker> assigned = resources_.Assign(role, needed, except);
  if (!assigned.has_value()) return std::nullopt;
  assigned_.insert(role);
  return assigned->worker;
}

void TaskScheduler::Add(LearnerTask task, int64_t now_nanos) {
  learner_tasks_.push_back({std::move(task), now_nanos});
}

void TaskScheduler::Add(CollectorTask task, int64_t now_nanos) {
  collector_tasks_.push_back({std::move(task), now_nanos});
}

std::optional<LearnerTask> TaskScheduler::TakeExpiredLearnerTask(int64_t now_nanos) {
  return TakeExpired<LearnerTask>(options_.learner_task_timeout, now_nanos, &learner_tasks_);
}

std::optional<CollectorTask> TaskScheduler::TakeExpiredCollectorTask(int64_t now_nanos) {
  return TakeExpired<CollectorTask>(options_.collector_task_timeout, now_nanos, &collector_tasks_);
}

absl::Duration TaskScheduler::TimeToExpiry(int64_t now_nanos) const {
  return std::min(ding::TimeToExpiry(learner_tasks_, options_.learner_task_timeout, now_nanos),
                  ding::TimeToExpiry(collector_tasks_, options_.collector_task_timeout, now_nanos));
}

void TaskScheduler::OfferLearnerTasks(absl::FunctionRef<bool(const LearnerTask& task)> start) {
  TakeIf(start, &learner_tasks_);
}

void TaskScheduler::OfferCollectorTasks(absl::FunctionRef<bool(const CollectorTask& task)> start) {
  TakeIf(start, &collector_tasks_);
}

void TaskScheduler::ForEachWaiting(
    absl::FunctionRef<void(Hello::Role kind, const std::string& task_id, const Resources& needed)>
        see) const {
  for (const auto& waiting : learner_tasks_) {
    see(Hello::LEARNER, waiting.task.task_id(), waiting.task.resources());
  }
  for (const auto& waiting : collector_tasks_) {
    see(Hello::COLLECTOR, waiting.task.task_id(), waiting.task.resources());
  }
}

std::vector<CollectorTask> TaskScheduler::TakeCollectorTasksOf(const std::string& buffer_id) {
  std::vector<CollectorTask> taken;
  const auto take = [&](const CollectorTask& task) {
    if (task.buffer_id() != buffer_id) return false;
    taken.push_back(task);
    return true;
  };
  TakeIf(take, &collector_tasks_);
  return taken;
}

bool TaskScheduler::HasLearnerTask(absl::FunctionRef<bool(const LearnerTask& task)> matches) const {
  return std::any_of(learner_tasks_.begin(), learner_tasks_.end(),
                     [matches](const auto& waiting) { return matches(waiting.task); });
}

bool TaskScheduler::HasCollectorTask(
    absl::FunctionRef<bool(const CollectorTask& task)> matches) const {
  return std::any_of(collector_tasks_.begin(), collector_tasks_.end(),
                     [matches](const auto& waiting) { return matches(waiting.task); });
}

void TaskScheduler::Save(std::vector<JournalRecord>* records) const {
  for (const auto& waiting : learner_tasks_) {
    *records->emplace_back().mutable_learner_task() = waiting.task;
  }
  for (const auto& waiting : collector_tasks_) {
    *records->emplace_back().mutable_collector_task() = waiting.task;
  }
}

TaskScheduler::Streak TaskScheduler::NoteFailure(const TaskKind& kind, uint32_t worker) {
  Failures& failures = failures_[kind];
  failures.workers.insert(worker);
  return {++failures.in_row, ++worker_failures_[worker]};
}

void TaskScheduler::NoteSuccess(const TaskKind& kind, uint32_t worker) {
  failures_.erase(kind);
  worker_failures_.erase(worker);
}

void TaskScheduler::NoteTrained(uint32_t worker, const std::string& policy_id, int64_t train_iter,
                                bool begins) {
  const auto [furthest, is_first] = furthest_iter_.try_emplace(policy_id, train_iter);
  if (!is_first && train_iter <= furthest->second) return;
  furthest->second = train_iter;
  if (!begins) NoteSuccess({Hello::LEARNER, policy_id}, worker);
}

void TaskScheduler::ForgetTrained(const std::string& policy_id) {
  furthest_iter_.erase(policy_id);
  for (const Hello::Role role : {Hello::COLLECTOR, Hello::LEARNER}) {
    failures_.erase({role, policy_id});
  }
}

bool TaskScheduler::HasFailed(const TaskKind& kind, uint32_t worker) const {
  const auto found = failures_.find(kind);
  return found != failures_.end() && found->second.workers.count(worker) > 0;
}

}  // namespace ding
