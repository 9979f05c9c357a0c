// Knows the tasks that wait for a worker, the free workers, and the tasks that have failed in a row.
//
//     Add ──► waiting ──Offer...Tasks──► a worker runs it (SetFree ──► Assign)
//                │
//                ├──TakeExpired...Task──► nobody took it in time
//                └──TakeCollectorTasksOf──► its buffer is closed
//
// Tasks are offered in the order in which they were added.
//
// Ownership: a value of the coordinator, which starts the tasks and tells the commander of them.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COORDINATOR_STATE_TASK_SCHEDULER_H_
#define DING_WORKER_COORDINATOR_STATE_TASK_SCHEDULER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/resource_manager.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class TaskScheduler {
 public:
  // How long a task may wait for a worker.
  struct Options {
    absl::Duration learner_task_timeout;
    absl::Duration collector_task_timeout;
  };
  // Names the tasks whose failures and successes are counted together: all that train one policy, or all that
  // act by it.
  struct TaskKind {
    Hello::Role role = Hello::COLLECTOR;
    std::string policy_id;

    bool operator<(const TaskKind& other) const {
      return std::tie(role, policy_id) < std::tie(other.role, other.policy_id);
    }
  };
  // How many tasks have failed in a row, including the newest failure.
  struct Streak {
    int of_kind = 0;
    int of_worker = 0;
  };

  explicit TaskScheduler(const Options& options) : options_(options) {}

  // Says that the worker has nothing to do, and which resources it has.
  void SetFree(Hello::Role role, uint32_t worker, const Resources& resources);
  // Says that the worker is gone, or gets no further task.
  void Remove(Hello::Role role, uint32_t worker);
  // Returns a free worker other than `except` that has all that is needed; it is not free any more. None if
  // there is no such worker.
  std::optional<uint32_t> Assign(Hello::Role role, const Resources& needed,
                                 std::optional<uint32_t> except = std::nullopt);

  void Add(LearnerTask task, int64_t now_nanos);
  void Add(CollectorTask task, int64_t now_nanos);
  // Removes and returns a task that has waited for too long; none if there is no such task.
  std::optional<LearnerTask> TakeExpiredLearnerTask(int64_t now_nanos);
  std::optional<CollectorTask> TakeExpiredCollectorTask(int64_t now_nanos);
  // Returns the time until the next task has waited for too long; infinite if no task waits.
  absl::Duration TimeToExpiry(int64_t now_nanos) const;
  // Calls `start` for each task that waits. A task for which it returns false goes on waiting.
  void OfferLearnerTasks(absl::FunctionRef<bool(const LearnerTask& task)> start);
  void OfferCollectorTasks(absl::FunctionRef<bool(const CollectorTask& task)> start);
  // Calls `see` for each task that waits.
  void ForEachWaiting(
      absl::FunctionRef<void(Hello::Role kind, const std::string& task_id, const Resources& needed)>
          see) const;
  // Returns how many learning tasks wait.
  int64_t waiting_learner_tasks() const { return static_cast<int64_t>(learner_tasks_.size()); }
  // Returns whether a worker of this kind has ever been assigned.
  bool HasAssigned(Hello::Role kind) const { return assigned_.count(kind) > 0; }
  // Removes and returns the waiting tasks that collect for this buffer.
  std::vector<CollectorTask> TakeCollectorTasksOf(const std::string& buffer_id);
  // Returns whether `matches` is true for a waiting task of a learner, or of a collector.
  bool HasLearnerTask(absl::FunctionRef<bool(const LearnerTask& task)> matches) const;
  bool HasCollectorTask(absl::FunctionRef<bool(const CollectorTask& task)> matches) const;
  // Appends a record for each task that waits.
  void Save(std::vector<JournalRecord>* records) const;

  // Counts a failure, and returns the streaks that it belongs to.
  Streak NoteFailure(const TaskKind& kind, uint32_t worker);
  // Ends the streaks of the kind and of the worker.
  void NoteSuccess(const TaskKind& kind, uint32_t worker);
  // Says that a learner of the policy reports this train iteration; `begins`: the first one of its task. Ends the
  // streaks if the learner has trained further than all before it. A learner that repeats what was lost, and
  // fails at the same place, does not end them.
  void NoteTrained(uint32_t worker, const std::string& policy_id, int64_t train_iter, bool begins);
  // Says that the policy's task is done: another one may begin with its first iteration.
  void ForgetTrained(const std::string& policy_id);
  // Returns whether a task of the worker is among those of its kind that failed in a row.
  bool HasFailed(const TaskKind& kind, uint32_t worker) const;

 private:
  template <typename Task>
  struct Waiting {
    Task task;
    int64_t since_nanos = 0;
  };
  struct Failures {
    int in_row = 0;
    std::set<uint32_t> workers;
  };

  const Options options_;
  NaiveResourceManager resources_;
  std::deque<Waiting<LearnerTask>> learner_tasks_;
  std::deque<Waiting<CollectorTask>> collector_tasks_;
  std::set<Hello::Role> assigned_;  // the kinds of which a worker was assigned
  std::map<TaskKind, Failures> failures_;
  std::map<std::string, int64_t>
      furthest_iter_;  // the furthest iteration of each policy that is trained
  std::map<uint32_t, int> worker_failures_;  // in a row; workers without failures are left out
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_TASK_SCHEDULER_H_
