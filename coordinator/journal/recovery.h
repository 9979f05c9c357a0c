// Reads the state of a run from its journal, for the coordinator that continues the run.
//
//     journal ──ReadJournal──► RecoveredRun     the newest state, without rows
//             ──Journal::Read─► pushes ──KeepChunks──► the rows whose data still exist
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_COORDINATOR_JOURNAL_RECOVERY_H_
#define DING_WORKER_COORDINATOR_JOURNAL_RECOVERY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/data/batch.h"

namespace ding {

struct RecoveredRun {
  StateRecord state;      // includes the env steps of the pushes behind its record
  std::string commander;  // its state, as SaveCommander() makes it
  // The tasks that were given and are not over, in the order in which they were given.
  std::vector<LearnerTask> learner_tasks;
  std::vector<CollectorTask> collector_tasks;
  // The chunks that had left their buffer.
  std::unordered_set<int64_t> removed_chunks;

  // The buffer's part of the state; null if the buffer is closed.
  const BufferRecord* FindBuffer(const std::string& buffer_id) const;
};

// Calls a visitor for each record, as Journal::Read() does.
using JournalReader = std::function<absl::Status(const Journal::Visitor& visit)>;

// Returns the state of the run, or nullopt if nothing has happened yet. A buffer's rows_total and rows_drawn are those of
// its last push, or of the last state.
//   kDataLoss  there are pushes, but no state of the run
absl::StatusOr<std::optional<RecoveredRun>> ReadJournal(const Journal& journal);
absl::StatusOr<std::optional<RecoveredRun>> ReadJournal(const JournalReader& read);

// Returns the keys of the store that the run needs to continue: those of chunks that are in a buffer, and of policies.
absl::StatusOr<std::vector<std::string>> LiveKeys(const Journal& journal);

// Returns the rows of `items` for whose chunk `keep` returns true, in their order.
absl::StatusOr<Batch> KeepChunks(const Batch& items,
                                 const std::function<bool(int64_t chunk)>& keep);

// Convert the state of a commander to bytes, and back.
absl::StatusOr<std::string> SaveCommander(const BaseCommander& commander);
absl::Status LoadCommander(const std::string& bytes, BaseCommander* commander);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_RECOVERY_H_
