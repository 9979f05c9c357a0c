// A record of what must survive the coordinator's process. The coordinator appends to it before it tells anybody what has
// happened.
//
//   push ────┐                       ┌── Read(): a new coordinator repeats what is in it
//   removed ─┼─Append─► a Log ───────┤
//   state ───┘                       └── deleted where it lies: what nobody will need
//
// A state, a state of the commander and a task take the place of the one before; a task that is over leaves no record. A
// push is not needed any more when all of its chunks were removed, or when its buffer is in no state. Its record, and that
// of the removal, are deleted together with the next state, which has the buffer's counts (rows_total, rows_drawn, envstep)
// as all pushes before left them.
//
// A log that may lose something (Redis) is held in memory, too, and written anew when it has.
//
// Ownership: owns the log.
// Threads:   thread-safe.
// Errors:    those of Log; every message names the journal. A failed append may be repeated, except after
//   kAborted   another coordinator has taken over this run, and nothing can be appended any more
//
// Example: coordinator/journal/journal_test.cc.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_
#define DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/store/log.h"

namespace ding {

class Journal {
 public:
  using Visitor = std::function<absl::Status(const JournalRecord&)>;

  // Reads the log.
  //   kDataLoss  a record is damaged
  static absl::StatusOr<std::unique_ptr<Journal>> Open(std::unique_ptr<Log> log);

  // Calls `visit` for each record that is needed or not deleted yet, in their order, until a call returns an error. `visit`
  // must not call the journal.
  absl::Status Read(const Visitor& visit) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Appends all of the records or, after an error, none of them.
  //   kResourceExhausted  there is no room for them
  absl::Status Append(absl::Span<const JournalRecord> records) ABSL_LOCKS_EXCLUDED(mutex_);

  // Appends `state`, which must have everything that is to be known now except pushes and removals, and deletes all earlier
  // records but those. Returns when all is on the disk.
  absl::Status Replace(absl::Span<const JournalRecord> state) ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t size_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What is known of a record in the log that is needed.
  struct Entry {
    std::string copy;  // its bytes, if the log may lose it
    int64_t refs = 0;  // push: its chunks that are left; removal: its chunks that are in a push
    std::vector<int64_t> removals;        // push: those of its chunks
    const std::string* buffer = nullptr;  // push: a key of buffers_
  };
  // The counts of the last push into a buffer, or of the last state.
  struct Counts {
    int64_t rows_total = 0;
    int64_t rows_drawn = 0;
  };
  // What an append writes.
  struct Batch {
    std::vector<std::string> records;
    std::vector<int64_t> superseded;  // needed until now
    bool with_dead = false;  // whether it deletes the records that are not needed any more, too
    bool anew = false;
  };

  explicit Journal(std::unique_ptr<Log> log) : log_(std::move(log)) {}

  absl::Status Write(absl::Span<const JournalRecord> records, bool replaces_all)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Repeats the batch whose outcome is unknown, if there is one.
  absl::Status Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Batch MakeBatch(absl::Span<const JournalRecord> records, bool replaces_all)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the record of a state with the counts of the pushes before it.
  JournalRecord WithCounts(const JournalRecord& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Commit(Batch batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CommitAnew(Batch batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Note what is in the log now.
  absl::Status NoteBytes(int64_t index, absl::string_view bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotePush(int64_t index, const PushRecord& push, Entry* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteRemoved(int64_t index, const RemovedRecord& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteState(int64_t index, const StateRecord& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes that `*last` is the record that counts, instead of the one before.
  void NoteLast(int64_t index, int64_t* last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(int64_t removal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Kill(int64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  const std::unique_ptr<Log> log_ ABSL_PT_GUARDED_BY(mutex_);
  std::map<int64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by index
  std::vector<int64_t> dead_ ABSL_GUARDED_BY(mutex_);         // are in the log and not needed
  std::map<std::string, Counts> buffers_ ABSL_GUARDED_BY(mutex_);
  int64_t envstep_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<int64_t, std::vector<int64_t>> pushes_ ABSL_GUARDED_BY(mutex_);  // by chunk
  // The removals of chunks whose push is not in the journal yet, by chunk: it could not be written at first.
  std::unordered_map<int64_t, int64_t> early_ ABSL_GUARDED_BY(mutex_);
  int64_t state_ ABSL_GUARDED_BY(mutex_) = 0;                     // index of the last one; 0: none
  int64_t commander_ ABSL_GUARDED_BY(mutex_) = 0;                 // likewise
  std::map<std::string, int64_t> tasks_ ABSL_GUARDED_BY(mutex_);  // index by id
  std::optional<Batch> unknown_ ABSL_GUARDED_BY(mutex_);          // whose outcome is
  // The pushes of such a batch that were written nevertheless, and which who appended them will append again.
  std::unordered_set<std::string> written_ ABSL_GUARDED_BY(mutex_);
};

// Parses a record of the journal. kDataLoss: it is none.
absl::StatusOr<JournalRecord> ParseJournalRecord(absl::string_view bytes);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_
