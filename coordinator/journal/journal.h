// The durable state of a coordinator. The coordinator appends to it before it sends messages.
//
//   push ─────────────────────► a record of the log, until all its chunks have left their buffer
//   state, commander, task ───► a part of the log's snapshot; a new value replaces the old one, and
//                               the part of a task goes when the task is over
//   a chunk left its buffer ──► "removed/<chunk>", until the record of its push is deleted
//
// Each record or part has a CRC-32C, which detects damage by a disk. If a log may lose records
// (Redis), the journal keeps them in memory, too, and writes them again after a loss.
//
// Ownership: owns the log.
// Threads:   thread-compatible.
// Errors:    as Log; every message names the log. A failed Append() may be repeated, except
//            after
//   kAborted   another coordinator has taken over this run, and nothing can be appended any more
//
// Example: coordinator/journal/journal_test.cc.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_
#define DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// The content of a journal without the rows.
struct RecordedRun {
  StateRecord state;
  std::string commander;  // its state
  // The tasks that are given and not over.
  std::vector<LearnerTask> learner_tasks;
  std::vector<CollectorTask> collector_tasks;
};

class Journal {
 public:
  // Reads the log.
  //   kDataLoss  a record is damaged
  static absl::StatusOr<std::unique_ptr<Journal>> Open(std::unique_ptr<Log> log);

  // Appends the records atomically. After kUnavailable the outcome is unknown: the next call must
  // begin with the same records, which are then written once.
  absl::Status Append(absl::Span<const JournalRecord> records);
  // Returns when all records are on the disk.
  absl::Status Sync() { return log_->Sync(); }

  // Returns nullopt if nothing has happened yet.
  //   kDataLoss  there are pushes, but no state of the run
  absl::StatusOr<std::optional<RecordedRun>> ReadRun() const;
  // Calls `visit` for each push that has a chunk in a buffer, in their order. `visit` must not call
  // Append().
  absl::Status ReadPushes(const std::function<absl::Status(const PushRecord&)>& visit) const;
  // Whether a chunk was pushed and has not left its buffer.
  bool IsLive(int64_t chunk) const { return live_.count(chunk) > 0; }
  // Returns the keys of the store that the run needs to continue: the live chunks, and the
  // policies.
  absl::StatusOr<std::vector<std::string>> LiveKeys() const;

  // The number of records and parts.
  int64_t records() const;
  int64_t size_bytes() const { return log_->size_bytes(); }

 private:
  struct Push {
    std::vector<int64_t> chunks;
    size_t left = 0;    // how many chunks are live
    std::string bytes;  // its record, if the log does not have it yet or may lose it
  };
  // What a call of Append() changes.
  struct Addition {
    size_t records = 0;  // of the call
    std::vector<Push> pushes;
    std::vector<int64_t> removed;  // chunks
    std::set<int64_t> dead;        // indexes of the pushes that are deleted
    Log::Snapshot parts;
    bool anew = false;
  };

  explicit Journal(std::unique_ptr<Log> log) : log_(std::move(log)) {}

  Addition Prepare(absl::Span<const JournalRecord> records) const;
  void PrepareRemoved(Addition* added) const;
  absl::Status Commit(Addition added);
  // Note the content of the log.
  void NotePush(int64_t index, Push push);
  void NoteRemoved(absl::Span<const int64_t> chunks);
  absl::Status NoteRemovedParts();

  const std::unique_ptr<Log> log_;
  Log::Snapshot parts_;
  std::map<int64_t, Push> pushes_;             // by their index in the log
  std::unordered_map<int64_t, int64_t> live_;  // the index of its push, for each live chunk
  std::vector<int64_t> dead_;  // indexes of pushes without a live chunk, which the log still has
  std::optional<Addition> unknown_;  // the last call failed, but may have been written nevertheless
};

// Encode and decode a record of the log. kDataLoss: the bytes are not a record, or are damaged.
std::string EncodeJournalRecord(const JournalRecord& record);
absl::StatusOr<JournalRecord> DecodeJournalRecord(absl::string_view bytes);

// Returns the rows of `items` for whose chunk `keep` returns true, in their order.
absl::StatusOr<Batch> KeepChunks(const Batch& items,
                                 const std::function<bool(int64_t chunk)>& keep);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_
