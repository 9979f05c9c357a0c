// The state of a parallel run, and the function that changes it: for the sources of the coordinator only. Users
// include coordinator.h.
//
//     Event ──► Apply(RunState*) ──► Effects: messages to send, keys to delete, lines to log
//                     └──TakeRecords──► journal: what must be written before
//
// Apply() takes no lock, does no IO, starts no thread and reads no clock: time comes with the event. The driver
// (coordinator.cc) calls it, and carries out the effects once the records are in the journal.
//
//   what a run knows, each in an object that owns its part of the state:
//     WorkerRoster         the workers, what they said, and data that wait for room
//     TaskScheduler        tasks that wait, free workers, failures in a row
//     TaskBuffer           the rows of a learner's task, and the demands for them
//     PolicyCatalogue      versions of policies
//     DoubtedEvaluations   results that need a witness
//     OperatorCommands     what operators ask for
//     RunProgress          time, steps, budgets
//     UnwrittenRecords     what has to be written down
//   the functions that change it, by what they are about (transitions.h):
//     apply.cc        an event comes, workers join and leave, the run ends
//     data.cc         items of collectors, demands of learners
//     messages.cc     all other messages of workers
//     tasks.cc        which worker does what
//     evaluations.cc  results that count, and witnesses for those that are doubted
//     claims.cc       what workers claim, and who is sent away
//     recovery.cc     the state in a journal, and a state from a journal
//     run_status.cc   what operators see and request
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
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/doubted_evaluations.h"
#include "ding_worker/coordinator/state/operator_commands.h"
#include "ding_worker/coordinator/state/policy_catalogue.h"
#include "ding_worker/coordinator/state/run_progress.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/task_scheduler.h"
#include "ding_worker/coordinator/state/unwritten_records.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/stopper_list.h"

namespace ding {
namespace internal_coordinator {

// Prefixes of the keys of chunks and of policies in the store.
inline constexpr char kDataPrefix[] = "data/";
inline constexpr char kPolicyPrefix[] = "policy/";
// The reason for the end of a run that an operator has stopped.
inline constexpr char kStopped[] = "an operator has stopped it";
// How often data that wait for room are tried again, since the rate control of buffers fades with time.
inline constexpr absl::Duration kRetryPeriod = absl::Milliseconds(5);

// What an event wants done.
struct Effects {
  struct Line {
    LogSeverity severity = LogSeverity::kInfo;
    std::string text;
    int every = 1;  // of so many lines with this number one is logged
  };

  std::vector<std::pair<uint32_t, CoordinatorMessage>> messages;  // to workers
  std::vector<std::string> deleted;                               // keys of the store
  std::vector<Line> lines;
  // What became of the event. An error of a worker's message means that the message is invalid.
  absl::Status status;
  uint32_t admitted = 0;  // the number of the worker
  std::string reply;      // to the operator
  // The workers whose data no longer wait for room, and what became of the data.
  std::vector<std::pair<uint32_t, absl::Status>> handled;
  // Tasks were given or taken: ask TimeToNextEvent() anew.
  bool timer_changed = false;
};

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
  int64_t EnvSteps() const { return progress.finished_steps() + workers.EnvSteps(); }
  // The env steps of the policy that learns from the buffer.
  int64_t EnvStepsOf(const TaskBuffer& buffer) const {
    return buffer.finished_steps() + workers.EnvStepsFor(buffer);
  }

  // These add to the effects.
  void Send(uint32_t worker, CoordinatorMessage message) {
    effects.messages.emplace_back(worker, std::move(message));
  }
  void Log(LogSeverity severity, std::string text, int every = 1) {
    effects.lines.push_back({severity, std::move(text), every});
  }
  // Adds a warning to the log and to the status.
  void Warn(const std::string& what);

  const Coordinator::Options options;
  const Coordinator::BufferFactory make_buffer;
  const Coordinator::TaskBufferFactory make_task_buffer;
  const Coordinator::SettingsCheck check_settings;
  const SpecPtr items;
  EventClock clock;

  const std::unique_ptr<BaseCommander> commander;
  StopperList stoppers;
  std::optional<int64_t> asked_stoppers_nanos;  // between evaluations
  WorkerRoster workers;
  TaskScheduler scheduler;
  std::map<std::string, std::shared_ptr<TaskBuffer>> buffers;
  PolicyCatalogue policies;
  DoubtedEvaluations doubted;
  OperatorCommands commands;
  RunProgress progress;
  UnwrittenRecords records;

  int32_t incarnation = 1;
  bool ended = false;
  absl::Status final_status;
  std::string end_reason;
  Coordinator::Counters counters;
  std::deque<std::string> warnings;  // the last few
  // How many tasks in a row the commander gave with invalid settings.
  std::map<Hello::Role, int> invalid_settings;
  // For each kind of task: why no worker can be given a task of this kind that waits.
  std::map<Hello::Role, std::string> unmet;
  // Keys of the chunks that were there when this coordinator began.
  std::unordered_set<std::string> recovered_keys;
  // The workers whose data wait for room, in the order in which they came.
  std::vector<uint32_t> held;
  bool retry_held = false;    // something happened that may have made room
  int64_t retried_nanos = 0;  // when waiting data were tried last
  Effects effects;            // of the event that is applied
};

// Changes the state as the event says. Its effects must not be seen before the records are written that
// TakeRecords() returns. Several events may share one call of it.
Effects Apply(const Event& event, RunState* run);

// Returns records of all that has changed since the last call and must survive the process.
std::vector<JournalRecord> TakeRecords(RunState* run);

// The time after which a timer event is needed although nothing else happens.
absl::Duration TimeToNextEvent(const RunState& run);

// Continues the run of the journal, if it has one. `list_keys` as in Coordinator::Parts. Call it once, before the first
// event. After an error the journal and the data are as before.
absl::Status Recover(
    const Journal& journal,
    const std::function<absl::StatusOr<std::vector<std::string>>(const std::string& prefix)>&
        list_keys,
    RunState* run);
// Returns records from which Recover() makes the same state, but for the pushed items.
absl::StatusOr<std::vector<JournalRecord>> AllRecords(RunState* run);

// Forgets all that is left at the end of the program. With `keeps_data` chunks and policies stay in the store.
Effects Forget(bool keeps_data, RunState* run);

RunStatus StatusOf(const RunState& run);

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_CORE_RUN_STATE_H_
