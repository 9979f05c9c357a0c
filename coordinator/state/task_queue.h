// The tasks that wait for a worker.
//
//     Add ──► waits ──TakeIf──► a worker gets it, or its buffer is closed
//                └───TakeExpired──► no worker took it in time
//
// The commander's task passes through this queue to its worker as a StartTask.
//
// Ownership: a value of RunState.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COORDINATOR_STATE_TASK_QUEUE_H_
#define DING_WORKER_COORDINATOR_STATE_TASK_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Calls `visit` with the LearnerTask or the CollectorTask.
template <typename Visit>
decltype(auto) VisitTask(const StartTask& task, Visit visit) {
  return task.has_learner() ? visit(task.learner()) : visit(task.collector());
}

// The role of the workers that run such a task.
inline Hello::Role RoleOf(const StartTask& task) {
  return task.has_learner() ? Hello::LEARNER : Hello::COLLECTOR;
}
inline const std::string& TaskIdOf(const StartTask& task) {
  return VisitTask(task, [](const auto& of) -> const std::string& { return of.task_id(); });
}
inline const std::string& BufferIdOf(const StartTask& task) {
  return VisitTask(task, [](const auto& of) -> const std::string& { return of.buffer_id(); });
}
inline const std::string& PolicyIdOf(const StartTask& task) {
  return VisitTask(task, [](const auto& of) -> const std::string& { return of.policy_id(); });
}
inline const Resources& NeededBy(const StartTask& task) {
  return VisitTask(task, [](const auto& of) -> const Resources& { return of.resources(); });
}

class TaskQueue {
 public:
  struct Waiting {
    StartTask task;
    int64_t since_nanos = 0;
  };

  // The timeouts say how long a task may wait.
  TaskQueue(absl::Duration learner_timeout, absl::Duration collector_timeout)
      : learners_{learner_timeout, {}}, collectors_{collector_timeout, {}} {}

  void Add(StartTask task, int64_t now_nanos) {
    Line& line = RoleOf(task) == Hello::LEARNER ? learners_ : collectors_;
    line.tasks.push_back({std::move(task), now_nanos});
  }
  // Returns the tasks for workers of this role, in the order in which they were added.
  const std::deque<Waiting>& For(Hello::Role role) const {
    return role == Hello::LEARNER ? learners_.tasks : collectors_.tasks;
  }
  // Removes the tasks for this role for which `take` returns true. `take` may add other tasks.
  void TakeIf(Hello::Role role, absl::FunctionRef<bool(const StartTask& task)> take) {
    Line& line = role == Hello::LEARNER ? learners_ : collectors_;
    std::deque<Waiting> waiting;
    waiting.swap(line.tasks);
    for (Waiting& one : waiting) {
      if (!take(one.task)) line.tasks.push_back(std::move(one));
    }
  }
  // Removes and returns a task that has waited for too long; none if there is no such task.
  std::optional<StartTask> TakeExpired(int64_t now_nanos) {
    for (Line* const line : {&learners_, &collectors_}) {
      if (line->TimeToExpiry(now_nanos) > absl::ZeroDuration()) continue;
      StartTask task = std::move(line->tasks.front().task);
      line->tasks.pop_front();
      return task;
    }
    return std::nullopt;
  }
  // Returns the time until the next task has waited for too long; infinite if no task waits.
  absl::Duration TimeToExpiry(int64_t now_nanos) const {
    return std::min(learners_.TimeToExpiry(now_nanos), collectors_.TimeToExpiry(now_nanos));
  }

 private:
  struct Line {
    absl::Duration timeout;
    std::deque<Waiting> tasks;

    absl::Duration TimeToExpiry(int64_t now_nanos) const {
      if (tasks.empty()) return absl::InfiniteDuration();
      return timeout - absl::Nanoseconds(now_nanos - tasks.front().since_nanos);
    }
  };

  Line learners_;
  Line collectors_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_TASK_QUEUE_H_
