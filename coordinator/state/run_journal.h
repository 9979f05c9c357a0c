// Collects what the coordinator has to write into its journal, and remembers what it has written.
//
//     NoteGiven, NoteOver ────┐
//     NoteState ──────────────┼──Persist──► tasks, state of the run, state of the commander
//     NoteCommander ──────────┘
//     NoteRemoved ──PersistRemoved──► chunks that are about to be deleted
//
// Notes that cannot be written are kept, and written by the next call. Pushes are appended to get()
// directly, because that happens without the coordinator's lock.
//
// Ownership: a value of the coordinator. The journal is not owned and outlives it.
// Threads:   thread-compatible: the caller holds the coordinator's lock. get() itself is
//            thread-safe.
// Errors:    those of the journal. After a kAborted (another coordinator has taken over the run), replaced() returns it,
//            too.
#ifndef DING_WORKER_COORDINATOR_STATE_RUN_JOURNAL_H_
#define DING_WORKER_COORDINATOR_STATE_RUN_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class RunJournal {
 public:
  // `journal` is null if nothing needs to survive the process. `on_replaced` is called when replaced() changes.
  RunJournal(Journal* journal, std::function<void()> on_replaced);

  // Null if there is no journal, or after Detach().
  Journal* get() const { return journal_; }
  // From now on nothing is written.
  void Detach() { journal_ = nullptr; }
  // An error if another coordinator has taken the journal over.
  const absl::Status& replaced() const { return replaced_; }
  // Sets replaced() if `status`, which the journal has returned, is that error.
  void NoteError(const absl::Status& status);

  // Note that the state of the run, or that of the commander, has changed.
  void NoteState() { state_changed_ = true; }
  void NoteCommander() { commander_changed_ = true; }
  // Note that the commander has given a task, or that a task is over. Both also change the commander's state.
  void NoteGiven(const LearnerTask& task);
  void NoteGiven(const CollectorTask& task);
  void NoteOver(const std::string& task_id);
  // Notes chunks that have left their buffer. They must not be deleted before PersistRemoved().
  void NoteRemoved(absl::Span<const int64_t> chunks);

  // Writes what was noted, if anything was, followed by the state of the run.
  absl::Status Persist(absl::FunctionRef<JournalRecord()> state, const BaseCommander& commander);
  void PersistRemoved();

  // Notes that Journal::Replace() has written all that was noted, except removed chunks.
  void NoteReplaced();

 private:
  // Adds a record to `unwritten_`; returns null if there is no journal.
  JournalRecord* AddTaskRecord();

  Journal* journal_;
  std::function<void()> on_replaced_;
  absl::Status replaced_;
  // Whether these have changed since the last Persist(). A new coordinator has not written them yet.
  bool state_changed_ = true;
  bool commander_changed_ = true;
  std::vector<JournalRecord> unwritten_;  // of tasks
  JournalRecord removed_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_RUN_JOURNAL_H_
