// The coordinator's memory beyond its process: records that it appends, of what must survive, before
// it tells anybody that it has happened.
//
//   push ─┐                          ┌── Read(): a new coordinator repeats what is in it
//   state ┼─Append─► [ r r r r r r ] ┤
//   over ─┘                          └── compaction: pushes of chunks that still live + the state
//
// Implementations: FileJournal, a file; StoreJournal, in a store that other machines reach, too.
//
// Compacting copies behind the appends and stops them only for the last few of them. It is worth it
// when the journal has doubled since the last time, so that its cost per push is bounded.
//
// Threads: thread-safe; one at a time compacts.
// Errors:  name the journal. An append that fails leaves it as it was, and may be repeated, unless
//            kAborted  another coordinator goes on with this run: nothing is appended any more
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

// The memory that a record may take when it is parsed: several times its bytes.
inline constexpr int64_t kMaxParsedRecordBytes = int64_t{4} << 30;

class Journal {
 public:
  using Visitor = std::function<absl::Status(const JournalRecord&)>;
  using IsAlive = std::function<bool(const std::string& buffer_id)>;

  virtual ~Journal() = default;

  // Calls `visit` for each record that is in it now, in their order, until one returns an error. Not
  // while somebody compacts.
  virtual absl::Status Read(const Visitor& visit) const = 0;

  // All or none of them.
  //   kResourceExhausted  there is no room
  virtual absl::Status Append(absl::Span<const JournalRecord> records) = 0;

  virtual bool WantsCompaction() const = 0;
  // Copies what is worth keeping while others append: pushes with a chunk that was not removed, into
  // a buffer that is `alive`. Slow.
  virtual absl::Status BeginCompaction(const IsAlive& alive) = 0;
  // Puts the copy in the place of the journal, with `state` at its end, once or twice: all that is to be known now
  // beside pushes and removals, which alone may be appended meanwhile. Fast.
  virtual absl::Status FinishCompaction(absl::Span<const JournalRecord> state) = 0;
  // Deletes what lies in the place of the journal before, if that takes long: what it cannot delete
  // is left for the next time.
  virtual void DropReplaced() {}

  virtual int64_t size_bytes() const = 0;
  virtual int64_t compactions() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_H_
