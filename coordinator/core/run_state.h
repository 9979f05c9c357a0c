// The state of a parallel run, and the function that changes it: for the sources of the coordinator
// only. Users include coordinator.h.
//
//     Event ──► Apply(RunState*) ──► RunState::effects: messages to send, keys to delete, lines to log
//                     └──TakeRecords──► journal: what must be written before
//
// Apply() takes no lock, does no IO, starts no thread and reads no clock: time comes with the
// event. RunDriver calls it, and carries out the effects once the records are in the journal.
//
//   parts of the state that are objects:
//     WorkerRoster      the workers, their tasks, their data that wait for room, and who is free
//     TaskQueue         tasks that wait for a worker
//     TaskBuffer        the rows of a learner's task, and the demands for them
//     PolicyCatalogue   versions of policies
//     RunProgress       time, steps, budgets
//     UnwrittenRecords  records for the journal
//   the functions that change it, by subject (transitions.h):
//     apply.cc        an event comes, workers join and leave, the run ends
//     data.cc         items of collectors, demands of learners
//     messages.cc     all other messages of workers
//     tasks.cc        which worker does what
//     evaluations.cc  results that count, and witnesses for doubtful ones
//     claims.cc       false claims and failures of workers, and sending workers away
//     recovery.cc     the state in a journal, and a state from a journal
//     operators.cc    what operators see and request
//
// Threads: thread-compatible; only the driver touches a RunState.
#ifndef DING_WORKER_COORDINATOR_CORE_RUN_STATE_H_
#define DING_WORKER_COORDINATOR_CORE_RUN_STATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/policy_catalogue.h"
#include "ding_worker/coordinator/state/run_progress.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_queue.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/stopper_registry.h"

namespace ding {
namespace internal_coordinator {

// Prefixes of the keys of chunks and of policies in the store.
inline constexpr char kDataPrefix[] = "data/";
inline constexpr char kPolicyPrefix[] = "policy/";
// The reason for the end of a run that an operator has stopped.
inline constexpr char kStopped[] = "an operator has stopped it";
// The retry period of waiting data: the counts of a buffer's rate limiter decay with time.
inline constexpr absl::Duration kRetryPeriod = absl::Milliseconds(5);
// The journal is written at least this often: a failed write tells a coordinator that another
// coordinator has taken its place.
inline constexpr absl::Duration kWritePeriod = absl::Seconds(10);

// The actions of the driver for the applied events.
struct Effects {
  struct Line {
    LogSeverity severity = LogSeverity::kInfo;
    std::string text;
    int every = 1;  // of this many lines with the same number, one is logged
    LogEvent event;
  };

  std::vector<std::pair<uint32_t, CoordinatorMessage>> messages;  // to workers
  std::vector<std::string> deleted;                               // keys of the store
  std::vector<Line> lines;
  // Workers whose data no longer wait, and the outcome for the data.
  std::vector<std::pair<uint32_t, absl::Status>> handled;
  // Tasks were given or taken: call TimeToNextEvent() again.
  bool timer_changed = false;
};

// The outcome of an event.
struct Outcome {
  absl::Status status;    // an error of a worker's message means that the message is invalid
  uint32_t admitted = 0;  // the number of the worker
  std::string reply;      // to the operator
  bool waits = false;     // the data of the message wait; Effects::handled has their outcome later
};

// Records that must be in the journal before any message is sent. They keep the order in which they
// were noted. The state of the run and the state of the commander are written once, after them.
class UnwrittenRecords {
 public:
  // If `keeps` is false, there is no journal, and nothing is noted.
  explicit UnwrittenRecords(bool keeps) : keeps_(keeps) {}

  // Say that the state of the run, or the state of the commander, has changed.
  void NoteState() { state_changed_ = true; }
  void NoteCommander() { commander_changed_ = true; }
  // Say that the commander has given a task, or that a task is over. Both also change the
  // commander's state.
  void NoteGiven(const StartTask& task) {
    commander_changed_ = true;
    if (keeps_) records_.push_back(RecordOf(task));
  }
  void NoteOver(const std::string& task_id) {
    commander_changed_ = true;
    if (keeps_) records_.emplace_back().set_task_over(task_id);
  }
  // Returns the record of a push, for the caller to fill in; null if nothing is kept.
  PushRecord* AddPush() { return keeps_ ? records_.emplace_back().mutable_push() : nullptr; }
  // Says that chunks have left their buffer.
  void NoteRemoved(const std::vector<int64_t>& chunks) {
    if (!keeps_ || chunks.empty()) return;
    if (records_.empty() || !records_.back().has_removed()) records_.emplace_back();
    records_.back().mutable_removed()->mutable_chunk()->Add(chunks.begin(), chunks.end());
  }

  bool keeps() const { return keeps_; }
  bool state_changed() const {
    return keeps_ && (state_changed_ || commander_changed_ || !records_.empty());
  }
  bool commander_changed() const { return keeps_ && commander_changed_; }
  // Returns the records, and forgets them and all changes.
  std::vector<JournalRecord> Take() {
    state_changed_ = commander_changed_ = false;
    return std::exchange(records_, {});
  }

  // Returns the record of a task that is not over.
  static JournalRecord RecordOf(const StartTask& task) {
    JournalRecord record;
    if (task.has_learner()) {
      *record.mutable_learner_task() = task.learner();
    } else {
      *record.mutable_collector_task() = task.collector();
    }
    return record;
  }

 private:
  const bool keeps_;
  // Both begin as true: a new coordinator has not written these states yet.
  bool state_changed_ = true;
  bool commander_changed_ = true;
  std::vector<JournalRecord> records_;
};

// An evaluation that counts only if another worker, a witness, confirms its result.
struct DoubtedEvaluation {
  uint32_t worker = 0;  // reports the result
  std::string name;     // the name of that worker
  CollectorTask task;   // as the commander gave it
  CollectorFinished result;
  CollectorTask witness_task;
  bool waits = true;  // whether no worker has the witness's task yet
};

// Tasks of one kind (all that train one policy, or all that act by it) that have failed in a row.
struct FailureStreak {
  int tasks = 0;
  std::set<uint32_t> workers;
};
using TaskKind = std::pair<Hello::Role, std::string>;  // and the policy
inline TaskKind KindOf(const StartTask& task) { return {RoleOf(task), PolicyIdOf(task)}; }

// The time of the event that is applied.
class EventClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + absl::Nanoseconds(nanos_); }
  int64_t MonotonicNanos() const override { return nanos_; }
  void Set(int64_t nanos) { nanos_ = nanos; }

 private:
  int64_t nanos_ = 0;
};

struct RunState {
  // `now_nanos` is the time at which the state is made, by the clock of its events.
  RunState(const Coordinator::Options& options, Coordinator::Parts* parts, int64_t now_nanos);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  int64_t now() const { return clock.MonotonicNanos(); }
  absl::Duration Elapsed(int64_t since_nanos) const {
    return absl::Nanoseconds(now() - since_nanos);
  }
  int64_t EnvSteps() const { return progress.env_steps(); }
  int64_t train_iter() const { return progress.train_iter(); }
  bool lockstep() const { return options.lockstep_tasks > 0; }
  // Returns the worker that learns from the buffer; null if there is none.
  Worker* LearnerOf(const TaskBuffer& buffer) {
    return buffer.learner().has_value() ? workers.Find(*buffer.learner()) : nullptr;
  }

  // These functions add to the effects.
  void Send(uint32_t worker, CoordinatorMessage message) {
    effects.messages.emplace_back(worker, std::move(message));
  }
  void Log(LogSeverity severity, std::string text, int every = 1) {
    effects.lines.push_back(
        {severity, std::move(text), every, {EventKind::kNone, "", EnvSteps(), train_iter()}});
  }
  // Logs an event, with what it happens to. The result may be changed until the next line.
  LogEvent& LogEventOf(EventKind kind, std::string name, LogSeverity severity, std::string text) {
    Log(severity, std::move(text));
    LogEvent& event = effects.lines.back().event;
    event.kind = kind;
    event.name = std::move(name);
    return event;
  }
  // Adds a warning to the log and to the status.
  void Warn(const std::string& what, EventKind kind = EventKind::kFault, std::string name = "");

  const Coordinator::Options options;
  const Coordinator::BufferFactory make_buffer;
  const Coordinator::SettingsCheck check_settings;
  const SpecPtr items;
  EventClock clock;

  const GuardedCommander commander;
  StopperList stoppers;
  std::optional<int64_t> asked_stoppers_nanos;  // between evaluations
  WorkerRoster workers;
  TaskQueue tasks;  // that wait for a worker
  std::map<std::string, std::shared_ptr<TaskBuffer>> buffers;
  PolicyCatalogue policies;
  std::vector<DoubtedEvaluation> doubted;
  int64_t witnesses = 0;  // how many were asked
  RunProgress progress;
  UnwrittenRecords records;
  int64_t written_nanos = 0;  // when records were taken last

  int32_t incarnation = 1;
  bool ended = false;
  absl::Status final_status;
  std::string end_reason;
  Coordinator::Counters counters;
  std::deque<std::string> warnings;  // the last few
  int wanted_collectors = 0;         // by the operators
  bool stop_wanted = false;          // an operator has stopped the run
  std::map<TaskKind, FailureStreak> failures;
  std::map<std::string, int64_t> furthest_iter;  // that a policy was ever trained to
  // How many tasks in a row the commander gave with invalid settings.
  std::map<Hello::Role, int> invalid_settings;
  // Why no worker of the role can be given a task that waits.
  std::map<Hello::Role, std::string> unmet;
  // Keys of the chunks that the store had when this coordinator began.
  std::unordered_set<std::string> recovered_keys;
  // The workers with data that wait, in the order in which the data came.
  std::vector<uint32_t> held;
  // In lockstep: the number of the task whose rows are pushed now, later tasks that are over, and
  // the rounds that were drawn.
  int64_t lockstep_task = 0;
  std::set<int64_t> lockstep_finished;
  int64_t lockstep_rounds = 0;
  bool retry_held = false;    // an event may have made room
  int64_t retried_nanos = 0;  // when waiting data were tried last
  int64_t played_nanos = 0;   // when the steps of a collecting task or an evaluation grew last
  Effects effects;            // of the events that were applied; the driver takes them
};

// Applies the event to the state, and adds to its effects. Carry them out only after the records of
// TakeRecords() are written. Several events may share one call of TakeRecords().
Outcome Apply(const Event& event, RunState* run);

// Returns records of all durable changes since the last call.
std::vector<JournalRecord> TakeRecords(RunState* run);

// The time until the next timer event is due.
absl::Duration TimeToNextEvent(const RunState& run);

// Continues the run of the journal, if the journal has one. `list_keys` as in Coordinator::Parts.
// Call it once, before the first event. After an error the journal and the data are as before.
absl::Status Recover(
    const Journal& journal,
    const std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)>&
        list_keys,
    RunState* run);

// Forgets all rows and policies at the end of the program. With `keeps_data` their data stay in the
// store.
void Forget(bool keeps_data, RunState* run);

// Returns whether a witness has this task: the commander did not give it.
bool IsWitnessTask(const RunState& run, const std::string& task_id);
RunStatus StatusOf(const RunState& run);
// Keeps only the workers and buffers with this name in a status; an empty name keeps all. Also
// finds learners of an aggregator.
void KeepNamed(const std::string& name, RunStatus* status);

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_CORE_RUN_STATE_H_
