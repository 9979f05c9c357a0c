// A record of what must survive the coordinator's process. The coordinator appends to it before it tells anybody what has
// happened.
//
//   push ─┐                          ┌── Read(): a new coordinator repeats what is in it
//   state ┼─Append─► [ r r r r r r ] ┤
//   over ─┘                          └── compaction: pushes of chunks that are still needed + the state
//
// Implementations: FileJournal (a file), and StoreJournal (a store that other machines can reach, too).
//
// A compaction copies records while others are appended, and stops the appends only for the last few of them. It happens
// when the journal has doubled in size since the last one, so that its cost per push is bounded.
//
// Threads: thread-safe, but only one thread at a time may compact.
// Errors:  every message names the journal. A failed append leaves the journal as it was, and may be repeated, except
//          after
//            kAborted  another coordinator has taken over this run, and nothing can be appended any more
//
// Example: coordinator/journal/journal_test.cc.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_
#define DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/coordinator/journal/journal.pb.h"

namespace ding {

// The most memory that a parsed record may take, which is several times its bytes.
inline constexpr int64_t kMaxParsedRecordBytes = int64_t{4} << 30;

class Journal {
 public:
  using Visitor = std::function<absl::Status(const JournalRecord&)>;
  using IsAlive = std::function<bool(const std::string& buffer_id)>;

  virtual ~Journal() = default;

  // Calls `visit` for each record in the journal, in their order, until a call returns an error. Must not be called during
  // a compaction.
  virtual absl::Status Read(const Visitor& visit) const = 0;

  // Appends all of the records or, after an error, none of them.
  //   kResourceExhausted  there is no room for them
  virtual absl::Status Append(absl::Span<const JournalRecord> records) = 0;

  virtual bool WantsCompaction() const = 0;
  // Copies the pushes that are still needed: those with a chunk that was not removed, into a buffer for which `alive`
  // returns true. It is slow; records may be appended meanwhile.
  virtual absl::Status BeginCompaction(const IsAlive& alive) = 0;
  // Replaces the journal by the copy, with `state` at its end (once or twice). `state` must contain everything that is to be
  // known now except pushes and removals, the only records that may be appended meanwhile. It is fast.
  virtual absl::Status FinishCompaction(absl::Span<const JournalRecord> state) = 0;
  // Deletes what is left of the journal before the compaction, for implementations in which that takes long. What cannot be
  // deleted is left for the next call.
  virtual void DropReplaced() {}

  virtual int64_t size_bytes() const = 0;
  virtual int64_t compactions() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_
