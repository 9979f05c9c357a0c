// The workers of a run: which have joined, which task each one has, which are free, and which were
// sent away.
//
//     NewNumber ──► Add ──► SetFree ──Assign──► has a task ──► SetFree ──► ... ──► Remove
//
// A number is given once, also across restarts. A worker that is draining gets no further task. A
// worker that was sent away is not admitted again for ten minutes.
//
// Ownership: a value of RunState. Tasks share their buffers with it. Pointers to workers are valid
// until Remove().
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
#include "ding_worker/coordinator/state/task_queue.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {

// At most this many env steps count per row. One step per row would be too few: in a game against
// an older player only every second step has a row, and an env may drop episodes.
inline constexpr int64_t kStepsPerRow = 4;

struct RunningTask {
  StartTask start;          // as the worker was sent it
  int64_t start_nanos = 0;  // when, by the coordinator's monotonic clock
  std::shared_ptr<TaskBuffer> buffer;
  int64_t steps = 0;        // the env steps that a collector claims, or the step of the learner
  int64_t rows = 0;         // how many rows a collecting task has pushed
  bool holds_back = false;  // a collecting task waits until it may continue (TaskBuffer::CheckGoOn)
  // The train iteration of the policy that it acts by: of the newest rows of a collecting task, or
  // of the version that an evaluation plays; -1: not known.
  int64_t acting_iter = -1;
  // The following are for learners.
  int64_t policy_iter = -1;  // the train iteration of the version that it published last
  // The first and the newest train iteration in its messages; -1: there was none.
  int64_t first_iter = -1;
  int64_t newest_iter = -1;
  int64_t progress_nanos = 0;  // when newest_iter grew last
  bool stalls = false;         // it makes no progress, and that was logged
  bool doubted = false;        // its reports of bad chunks are not believed
  bool complains = false;      // it reports many bad chunks, and that was logged
  std::set<uint32_t> accused;  // collectors of chunks that it could not learn from

  const std::string& id() const { return TaskIdOf(start); }
  const CollectorTask& collector() const { return start.collector(); }
  const LearnerTask& learner() const { return start.learner(); }
  bool learns() const { return start.has_learner(); }
  // Whether it collects rows, and does not evaluate.
  bool collects() const { return start.has_collector() && !start.collector().eval_flag(); }
  // Returns the env steps that count for the run if the task has pushed `pushed_rows` rows.
  int64_t StepsWith(int64_t pushed_rows) const {
    return collects() ? std::min(steps, kStepsPerRow * pushed_rows) : 0;
  }
};

// The items that a message of a collector announces. Empty if it reports progress only.
struct AnnouncedItems {
  SegmentBatch items;
  std::vector<int64_t> chunks;  // of the items, each once
  int64_t rows_of_items = 0;    // the sum of their lengths

  int64_t rows() const { return items.rows.rows(); }
};

// Data that wait for room in their buffer or, once they are pushed, until their collector may
// continue. No message of the worker is taken meanwhile.
struct HeldData {
  CollectorData message;
  AnnouncedItems announced;
  std::shared_ptr<TaskBuffer> buffer;
  bool pushed = false;
  bool refused = false;  // the buffer had no room for them at first
};

struct Worker {
  uint32_t id = 0;
  Hello hello;
  std::string peer;
  int64_t joined_nanos = 0;
  std::optional<RunningTask> task;
  int64_t free_number = 0;     // the number under which it is free; 0: it is not
  int failures_in_row = 0;     // how many of its tasks have failed in a row
  uint64_t data_sequence = 0;  // the number of the last data that were handled
  int64_t newest_chunk = -1;   // the newest chunk of those data
  std::optional<HeldData> held;
  uint64_t demand_sequence = 0;  // the number of the last demand
  int policies_since_heard = 0;  // how many versions were sent to it since its last message
  std::optional<PolicyVersion> withheld_policy;  // the newest version, if it was not sent
  std::string stalled;                           // the wait that the worker reports
  std::string waits_for;                         // why its data or its demand wait at its buffer
  bool draining = false;
  std::string sent_away;   // why; its messages are not accepted any more
  int64_t bad_chunks = 0;  // how many of its chunks a learner could not learn from
  // True if it joined without resources, as an aggregator does: it gets the resources of its
  // learners later.
  bool may_grow = false;
  GroupStatus group;        // the last report of an aggregator
  int64_t group_nanos = 0;  // when that report came

  // Returns null if it runs another task, or none.
  RunningTask* FindTask(const std::string& task_id) {
    return task.has_value() && task->id() == task_id ? &*task : nullptr;
  }
};

// Returns whether the task begins with that version, evaluates it, or plays against it.
bool NeedsVersion(const StartTask& task, const PolicyVersion& version);

class WorkerRoster {
 public:
  using Map = std::map<uint32_t, Worker>;

  uint32_t NewNumber() { return ++last_number_; }
  // Notes that an earlier coordinator gave a worker that number.
  void NoteNumber(uint32_t number) {
    last_number_ = std::max(last_number_, number);
    earlier_number_ = last_number_;
  }
  // Returns whether this coordinator may have given that number. After a power loss an earlier
  // coordinator may have given it, too.
  bool MayHaveGiven(uint32_t number) const { return number > earlier_number_; }
  // Adds a worker, which must not be in the roster yet. SetFree() then makes it free.
  Worker* Add(uint32_t id, const Hello& hello, const std::string& peer, int64_t now_nanos);
  void Remove(Worker* worker);

  // Returns null if the worker is not in the roster.
  Worker* Find(uint32_t id);
  const Worker* Find(uint32_t id) const;
  // Iterate over the workers in the order of their numbers.
  Map::iterator begin() { return workers_.begin(); }
  Map::iterator end() { return workers_.end(); }
  Map::const_iterator begin() const { return workers_.begin(); }
  Map::const_iterator end() const { return workers_.end(); }

  // Marks the worker as free for a task.
  void SetFree(Worker* worker);
  // Marks the worker as draining: it gets no further task, and leaves when it has none.
  void Drain(Worker* worker);
  // Takes a free worker of the role, other than `except`, that has the needed resources: the one
  // with the most CPUs, and among equals the one that has been free for longest. Null if there is
  // none.
  Worker* Assign(Hello::Role role, const Resources& needed,
                 std::optional<uint32_t> except = std::nullopt);
  // Returns whether a worker of the role was ever assigned.
  bool HasAssigned(Hello::Role role) const { return assigned_.count(role) > 0; }
  // If no worker of the role has the resources of the task, returns a sentence with the needed
  // resources, by the names of the config's fields, and the resources of the best worker. Workers
  // with a task count, draining ones do not. Returns nullopt if a worker has enough, or if there is
  // no worker of the role.
  std::optional<std::string> WhyUnmet(const StartTask& task) const;

  // Returns whether a worker runs the task.
  bool Runs(const std::string& task_id) const;
  // Returns whether a running task plays by the newest version of the policy.
  bool IsPlayed(const std::string& policy_id) const;
  // Returns whether a running task needs that version.
  bool Needs(const PolicyVersion& version) const;
  // Returns whether a collector other than this worker gets tasks.
  bool HasOtherCollector(uint32_t id) const;
  int collectors() const;
  // Returns the collectors to drain so that `wanted` are left: first those without a task, then the
  // others; the newest first in both cases.
  std::vector<uint32_t> Surplus(int64_t wanted) const;
  // Returns the names of all workers, and of the learners behind aggregators.
  std::vector<std::string> Names() const;

  // Bars workers with its name and process id from joining for ten minutes.
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

  void SetBusy(Worker* worker);

  Map workers_;
  std::map<int64_t, Worker*> free_;  // by the order in which they became free
  int64_t frees_ = 0;
  std::set<Hello::Role> assigned_;
  int draining_ = 0;  // how many workers are draining
  uint32_t last_number_ = 0;
  uint32_t earlier_number_ = 0;  // the last one that earlier coordinators are known to have given
  int64_t joined_ = 0;
  int64_t lost_ = 0;
  // The workers that were draining under an earlier coordinator and have not joined again yet.
  std::set<NameAndPid> were_draining_;
  std::map<NameAndPid, SentAway> sent_away_;
};

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_WORKER_ROSTER_H_
