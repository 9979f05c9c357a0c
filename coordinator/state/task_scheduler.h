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
// Threads:   thread-compatible: the caller holds the coordinator's lock.
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
  // For how long a task may wait for a worker.
  struct Options {
    absl::Duration learner_task_timeout;
    absl::Duration collector_task_timeout;
  };
  // Tasks whose failures and successes are counted together: those of a role that train, or act by, one
  // policy.
  struct TaskKind {
    Hello::Role role = Hello::COLLECTOR;
    std::string policy_id;

    bool operator<(const TaskKind& other) const {
      return std::tie(role, policy_id) < std::tie(other.role, other.policy_id);
    }
  };
  // Tasks that failed in a row, a new failure included.
  struct Streak {
    int of_kind = 0;
    int of_worker = 0;
  };

  explicit TaskScheduler(const Options& options) : options_(options) {}

  // The worker has nothing to do, and these resources.
  void SetFree(Hello::Role role, uint32_t worker, const Resources& resources);
  // The worker is gone, or gets no further task.
  void Remove(Hello::Role role, uint32_t worker);
  // A free worker with all that is needed, which is not free any more. It is not `except`.
  std::optional<uint32_t> Assign(Hello::Role role, const Resources& needed,
                                 std::optional<uint32_t> except = std::nullopt);

  void Add(LearnerTask task, int64_t now_nanos);
  void Add(CollectorTask task, int64_t now_nanos);
  // A task that has waited for too long; none if there is no such task.
  std::optional<LearnerTask> TakeExpiredLearnerTask(int64_t now_nanos);
  std::optional<CollectorTask> TakeExpiredCollectorTask(int64_t now_nanos);
  // When the next task has waited for too long; infinite if no task waits.
  absl::Duration TimeToExpiry(int64_t now_nanos) const;
  // Calls `start` for each task that waits; one for which it returns false waits on.
  void OfferLearnerTasks(absl::FunctionRef<bool(const LearnerTask& task)> start);
  void OfferCollectorTasks(absl::FunctionRef<bool(const CollectorTask& task)> start);
  // Calls `see` for each task that waits.
  void ForEachWaiting(
      absl::FunctionRef<void(Hello::Role kind, const std::string& task_id, const Resources& needed)>
          see) const;
  // Learning tasks that wait.
  int64_t waiting_learner_tasks() const { return static_cast<int64_t>(learner_tasks_.size()); }
  // Whether a worker of this kind has ever been assigned.
  bool HasAssigned(Hello::Role kind) const { return assigned_.count(kind) > 0; }
  std::vector<CollectorTask> TakeCollectorTasksOf(const std::string& buffer_id);
  // Whether a task of a learner, or of a collector, waits for which `matches` returns true.
  bool HasLearnerTask(absl::FunctionRef<bool(const LearnerTask& task)> matches) const;
  bool HasCollectorTask(absl::FunctionRef<bool(const CollectorTask& task)> matches) const;
  // A record for each task that waits.
  void Save(std::vector<JournalRecord>* records) const;

  Streak NoteFailure(const TaskKind& kind, uint32_t worker);
  // Ends the streaks of the kind and of the worker.
  void NoteSuccess(const TaskKind& kind, uint32_t worker);
  // A learner of the policy reports this train iteration; `begins`: it is the first one of its task. Ends
  // the streaks if the learner has trained further than all before it. One that trains what was lost again,
  // and fails at the same place, has no success.
  void NoteTrained(uint32_t worker, const std::string& policy_id, int64_t train_iter, bool begins);
  // The policy's task is done: another one may begin with its first iteration.
  void ForgetTrained(const std::string& policy_id);
  // Whether a task of the worker is among those of its kind that failed in a row.
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
  std::map<std::string, int64_t> furthest_iter_;  // of each policy that is trained
  std::map<uint32_t, int> worker_failures_;  // in a row; those of workers without any are left out
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_TASK_SCHEDULER_H_
