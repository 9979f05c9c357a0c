// The workers of a run: those that are here, what they do, and who must not come back yet.
//
//     NewNumber ──► Add ──► here ──► Remove      a number is given once, also across restarts
//
// Each worker is kept with the last report about itself and its task. A worker that is draining gets
// no further task; one that was sent away is not admitted again for ten minutes.
//
// Ownership: a value of the coordinator, which sends the messages and gives the tasks. They share
//            the buffers of tasks.
// Threads:   thread-compatible: the caller holds the coordinator's lock.
#ifndef DING_WORKER_COORDINATOR_STATE_WORKER_ROSTER_H_
#define DING_WORKER_COORDINATOR_STATE_WORKER_ROSTER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_scheduler.h"
#include "ding_worker/coordinator/state/task_state.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {

// Env steps that a row backs: in a game against an older player every second step has a row, and an
// env may drop episodes. What a collector claims beyond does not count.
inline constexpr int64_t kStepsPerRow = 4;

struct RunningTask {
  TaskState state;
  CollectorTask collector;  // the one of state.kind
  LearnerTask learner;
  std::shared_ptr<TaskBuffer> buffer;
  int64_t steps = 0;        // env steps that a collector claims, or the learner's step
  int64_t rows = 0;         // of the items of a collecting task that were pushed
  bool holds_back = false;  // a collecting task that waits to go on (TaskBuffer::CheckGoOn)
  // The following are for learners.
  int64_t first_step = -1;   // -1: none was heard of
  int64_t policy_iter = -1;  // of the version that it published last
  // Train iterations that its messages have named; -1: none.
  int64_t first_iter = -1;
  int64_t newest_iter = -1;
  int64_t progress_nanos = 0;  // when newest_iter grew last
  bool stalls = false;         // and that was logged
  bool doubted = false;        // what it says of chunks
  bool complains = false;      // of many chunks, and that was logged
  std::set<uint32_t> accused;  // collectors whose chunks it could not learn from

  // Env steps that count for the run.
  int64_t counted_steps() const {
    if (state.kind != Hello::COLLECTOR || collector.eval_flag()) return 0;
    return std::min(steps, kStepsPerRow * rows);
  }
};

// The tasks with which its failures are counted.
inline TaskScheduler::TaskKind KindOf(const RunningTask& task) {
  const bool learns = task.state.kind == Hello::LEARNER;
  return {task.state.kind, learns ? task.learner.policy_id() : task.collector.policy_id()};
}

struct Worker {
  Hello hello;
  std::string peer;
  int64_t joined_nanos = 0;
  std::optional<RunningTask> task;
  uint64_t data_sequence = 0;    // of the last data that were handled
  int64_t newest_chunk = -1;     // of those data
  uint64_t demand_sequence = 0;  // of the last demand
  int policies_since_heard = 0;  // versions that it was sent since it said something
  std::optional<PolicyVersion> withheld_policy;  // the newest, if it was not sent
  std::string stalled;                           // what it says that it waits for
  std::string waits_for;                         // what it waits for at its buffer
  bool draining = false;
  std::string sent_away;   // the reason; nothing that it says is taken any more
  int64_t bad_chunks = 0;  // of those that it announced
  // It joined without resources, as an aggregator does: it gets those of the learners that join it.
  bool may_grow = false;
  GroupStatus group;        // the last report of an aggregator
  int64_t group_nanos = 0;  // when that came
};

// Whether a player of the task plays by that version for as long as the task lasts.
bool PlaysBy(const CollectorTask& task, const PolicyVersion& version);
// Whether the task begins with the parameters of that version.
bool BeginsWith(const LearnerTask& task, const PolicyVersion& version);
// Whether the task evaluates that version.
bool Evaluates(const CollectorTask& task, const PolicyVersion& version);

class WorkerRoster {
 public:
  using Map = std::map<uint32_t, Worker>;

  uint32_t NewNumber() { return ++last_number_; }
  // The worker must not be here.
  void Add(uint32_t id, const Hello& hello, const std::string& peer, int64_t now_nanos);
  void Remove(uint32_t id);

  // Null if it is not here.
  Worker* Find(uint32_t id);
  const Worker* Find(uint32_t id) const;
  // Null if the worker is not here, or runs another task.
  RunningTask* FindTask(uint32_t id, const std::string& task_id);
  // In the order of their numbers.
  Map::iterator begin() { return workers_.begin(); }
  Map::iterator end() { return workers_.end(); }
  Map::const_iterator begin() const { return workers_.begin(); }
  Map::const_iterator end() const { return workers_.end(); }

  // Env steps of running tasks that count for the run; of those for one buffer.
  int64_t EnvSteps() const;
  int64_t EnvStepsFor(const TaskBuffer& buffer) const;
  // Whether a running task plays by the newest version of the policy.
  bool IsPlayed(const std::string& policy_id) const;
  // Whether a running task plays by that version, evaluates it, or began with it.
  bool Needs(const PolicyVersion& version) const;
  // Whether there is a collector that gets tasks, beside this worker.
  bool HasOtherCollector(uint32_t id) const;
  int collectors() const;
  // Collectors that are at work for this buffer, and not held back.
  int Collecting(const TaskBuffer* buffer) const;
  // Collectors that are to be drained for `wanted` to be left: first those without a task, and the
  // newest ones of both.
  std::vector<uint32_t> Surplus(int64_t wanted) const;
  // Names of all workers, and of the learners behind aggregators.
  std::vector<std::string> Names() const;

  // Workers of its name and process are not admitted for ten minutes.
  void NoteSentAway(const Hello& hello, const std::string& why, int64_t now_nanos);
  //   kFailedPrecondition  it was sent away
  absl::Status CheckNotSentAway(const Hello& hello, int64_t now_nanos) const;
  // Whether an earlier coordinator was draining the worker; true once.
  bool TakeWasDraining(const Hello& hello);

  void FillStatus(int64_t now_nanos, RunStatus* status) const;
  // For the journal.
  void Save(StateRecord* state) const;
  void Load(const StateRecord& state);

 private:
  using NameAndPid = std::pair<std::string, int64_t>;
  struct SentAway {
    std::string why;
    int64_t since_nanos = 0;
  };

  Map workers_;
  uint32_t last_number_ = 0;
  int64_t joined_ = 0;
  int64_t lost_ = 0;
  std::set<NameAndPid> were_draining_;  // and have not joined again yet
  std::map<NameAndPid, SentAway> sent_away_;
};

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_WORKER_ROSTER_H_
