// The workers of a run: those that are here, what they do, and who must not come back yet.
//
//     NewNumber ──► Add ──► here ──► Remove      a number is given once, also across restarts
//
// The roster keeps the last report of each worker about itself and its task. A worker that is draining gets no
// further task. A worker that was sent away is not admitted again for ten minutes.
//
// Ownership: a value of the coordinator, which sends the messages and gives the tasks. Both share the buffers of
//            tasks.
// Threads:   thread-compatible.
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
#include "ding_worker/data/segment.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {

// A collector may claim at most so many env steps per row; more do not count. One step per row would be too few: in
// a game against an older player every second step has a row, and an env may drop episodes.
inline constexpr int64_t kStepsPerRow = 4;

struct RunningTask {
  TaskState state;
  CollectorTask collector;  // set if state.kind is COLLECTOR
  LearnerTask learner;      // set if state.kind is LEARNER
  std::shared_ptr<TaskBuffer> buffer;
  int64_t steps = 0;        // the env steps that a collector claims, or the step of the learner
  int64_t rows = 0;         // how many rows a collecting task has pushed
  bool holds_back = false;  // a collecting task waits to go on (TaskBuffer::CheckGoOn)
  // The following are for learners.
  int64_t first_step = -1;   // -1: it has reported none
  int64_t policy_iter = -1;  // the train iteration of the version that it published last
  // The first and the newest train iteration in its messages; -1: there was none.
  int64_t first_iter = -1;
  int64_t newest_iter = -1;
  int64_t progress_nanos = 0;  // when newest_iter grew last
  bool stalls = false;         // it makes no progress, and that was logged
  bool doubted = false;        // what it says of chunks is not believed
  bool complains = false;      // it complains of many chunks, and that was logged
  std::set<uint32_t> accused;  // collectors whose chunks it could not learn from

  // Returns the env steps that count for the run.
  int64_t counted_steps() const {
    if (state.kind != Hello::COLLECTOR || collector.eval_flag()) return 0;
    return std::min(steps, kStepsPerRow * rows);
  }
};

// Returns the kind of tasks among which failures of this task are counted.
inline TaskScheduler::TaskKind KindOf(const RunningTask& task) {
  const bool learns = task.state.kind == Hello::LEARNER;
  return {task.state.kind, learns ? task.learner.policy_id() : task.collector.policy_id()};
}

// The items that a message of a collector announces. Empty if it reports progress only.
struct AnnouncedItems {
  SegmentBatch items;
  std::vector<int64_t> chunks;  // of the items, each once
  int64_t rows_of_items = 0;    // the sum of their lengths

  int64_t rows() const { return items.rows.rows(); }
};

// Data that wait: for room in their buffer or, once they are pushed, until their collector may go on. The worker sends
// nothing more meanwhile.
struct HeldData {
  CollectorData message;
  AnnouncedItems announced;
  std::shared_ptr<TaskBuffer> buffer;
  bool pushed = false;
  bool refused = false;  // the buffer had no room for them at first
};

struct Worker {
  Hello hello;
  std::string peer;
  int64_t joined_nanos = 0;
  std::optional<RunningTask> task;
  uint64_t data_sequence = 0;  // the number of the last data that were handled
  int64_t newest_chunk = -1;   // the newest chunk of those data
  std::optional<HeldData> held;
  uint64_t demand_sequence = 0;  // the number of the last demand
  int policies_since_heard = 0;  // how many versions were sent to it since its last message
  std::optional<PolicyVersion> withheld_policy;  // the newest version, if it was not sent
  std::string stalled;                           // what the worker says it waits for
  std::string waits_for;                         // why its data or its demand wait at its buffer
  bool draining = false;
  std::string sent_away;   // why; its messages are not accepted any more
  int64_t bad_chunks = 0;  // how many of its chunks are bad
  // True if it joined without resources, as an aggregator does: it gets those of the learners that join it.
  bool may_grow = false;
  GroupStatus group;        // the last report of an aggregator
  int64_t group_nanos = 0;  // when that report came
};

// Returns whether a player of the task plays by that version for as long as the task lasts.
bool PlaysBy(const CollectorTask& task, const PolicyVersion& version);
// Returns whether the task begins with the parameters of that version.
bool BeginsWith(const LearnerTask& task, const PolicyVersion& version);
// Returns whether the task evaluates that version.
bool Evaluates(const CollectorTask& task, const PolicyVersion& version);

class WorkerRoster {
 public:
  using Map = std::map<uint32_t, Worker>;

  uint32_t NewNumber() { return ++last_number_; }
  // Notes that a worker had that number, which an earlier coordinator gave it.
  void NoteNumber(uint32_t number) {
    last_number_ = std::max(last_number_, number);
    earlier_number_ = last_number_;
  }
  // Returns whether this coordinator may have given that number. After a power loss an earlier one may have, too.
  bool MayHaveGiven(uint32_t number) const { return number > earlier_number_; }
  // The worker must not be here.
  void Add(uint32_t id, const Hello& hello, const std::string& peer, int64_t now_nanos);
  void Remove(uint32_t id);

  // Returns null if the worker is not here.
  Worker* Find(uint32_t id);
  const Worker* Find(uint32_t id) const;
  // Returns null if the worker is not here, or runs another task.
  RunningTask* FindTask(uint32_t id, const std::string& task_id);
  // Iterate over the workers in the order of their numbers.
  Map::iterator begin() { return workers_.begin(); }
  Map::iterator end() { return workers_.end(); }
  Map::const_iterator begin() const { return workers_.begin(); }
  Map::const_iterator end() const { return workers_.end(); }

  // Return the env steps of running tasks that count for the run: of all tasks, or of those for one buffer.
  int64_t EnvSteps() const;
  int64_t EnvStepsFor(const TaskBuffer& buffer) const;
  // Returns whether a running task plays by the newest version of the policy.
  bool IsPlayed(const std::string& policy_id) const;
  // Returns whether a running task plays by that version, evaluates it, or began with it.
  bool Needs(const PolicyVersion& version) const;
  // Returns whether a collector other than this worker gets tasks.
  bool HasOtherCollector(uint32_t id) const;
  int collectors() const;
  // Returns how many collectors are at work for this buffer, without those that are held back.
  int Collecting(const TaskBuffer* buffer) const;
  // Returns the collectors to drain so that `wanted` are left: those without a task first, and the newest first
  // among both.
  std::vector<uint32_t> Surplus(int64_t wanted) const;
  // Returns the names of all workers, and of the learners behind aggregators.
  std::vector<std::string> Names() const;

  // Says that workers with its name and process id must not be admitted for ten minutes.
  void NoteSentAway(const Hello& hello, const std::string& why, int64_t now_nanos);
  //   kFailedPrecondition  it was sent away less than ten minutes ago
  absl::Status CheckNotSentAway(const Hello& hello, int64_t now_nanos) const;
  // Returns whether an earlier coordinator was draining the worker; true only once.
  bool TakeWasDraining(const Hello& hello);

  void FillStatus(int64_t now_nanos, RunStatus* status) const;
  // Write the roster into a record of the journal, and read it from one.
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
  uint32_t earlier_number_ = 0;  // the last one that earlier coordinators are known to have given
  int64_t joined_ = 0;
  int64_t lost_ = 0;
  std::set<NameAndPid>
      were_draining_;  // under an earlier coordinator, and have not joined again yet
  std::map<NameAndPid, SentAway> sent_away_;
};

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_WORKER_ROSTER_H_
