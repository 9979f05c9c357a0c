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
// Errors:    those of the journal. Once it says kAborted (another coordinator goes on with the
//            run), replaced() says so, too.
#ifndef DING_WORKER_COORDINATOR_STATE_RUN_JOURNAL_H_
#define DING_WORKER_COORDINATOR_STATE_RUN_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <optional>
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
  // `journal`: null if nothing is to survive. `on_replaced` is called when replaced() changes.
  RunJournal(Journal* journal, std::function<void()> on_replaced);

  // Null if nothing is to survive, or after Detach().
  Journal* get() const { return journal_; }
  // Nothing is written any more.
  void Detach() { journal_ = nullptr; }
  // An error if another coordinator has taken the journal over.
  const absl::Status& replaced() const { return replaced_; }
  // Looks at a status of the journal for that error.
  void NoteError(const absl::Status& status);

  // The state of the run has changed, or that of the commander.
  void NoteState() { state_changed_ = true; }
  void NoteCommander() { commander_changed_ = true; }
  // The commander gave a task, or a task is over: that changes the commander's state, too.
  void NoteGiven(const LearnerTask& task);
  void NoteGiven(const CollectorTask& task);
  void NoteOver(const std::string& task_id);
  // Chunks that left their buffer. They are not deleted before PersistRemoved().
  void NoteRemoved(absl::Span<const int64_t> chunks);

  // Writes what was noted, if anything was, with the state of the run behind it.
  absl::Status Persist(absl::FunctionRef<JournalRecord()> state, const BaseCommander& commander);
  void PersistRemoved();

  bool WantsCompaction() const { return journal_ != nullptr && journal_->WantsCompaction(); }
  // Whether a compaction is wanted, and the last failure is not too recent.
  bool ShouldCompact(int64_t now_nanos) const;
  // The journal's new state contains all that was noted, except removed chunks.
  void NoteCompacted();
  void NoteCompactionFailed(const absl::Status& status, int64_t now_nanos);

 private:
  // A new record at the end of `unwritten_`; null if nothing is to survive.
  JournalRecord* AddTaskRecord();

  Journal* journal_;
  std::function<void()> on_replaced_;
  absl::Status replaced_;
  // Since the last Persist(). A new coordinator has written nothing yet.
  bool state_changed_ = true;
  bool commander_changed_ = true;
  std::vector<JournalRecord> unwritten_;  // of tasks
  JournalRecord removed_;
  std::optional<int64_t> compaction_failed_nanos_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_RUN_JOURNAL_H_
