// Decides when a journal is worth compacting, and which of its records stay. Each implementation of Journal does the
// compaction in its own way.
//
//     for each record of the journal: NoteRemoved
//     for each record again:          Keeps ──► copy
//     still_removed() ──► copy, after them
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_COMPACTION_H_
#define DING_WORKER_COORDINATOR_JOURNAL_COMPACTION_H_

#include <cstdint>
#include <unordered_set>
#include <utility>

#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"

namespace ding {

// A smaller journal is not worth compacting.
inline constexpr int64_t kMinCompactionBytes = int64_t{16} << 20;
// At most this many bytes are left to copy when the appends are stopped, unless other threads append
// so fast that kMaxTailRounds rounds of copying leave more.
inline constexpr int64_t kShortTailBytes = int64_t{1} << 16;
inline constexpr int kMaxTailRounds = 8;

// `compacted_bytes` is the size of the journal after its last compaction.
inline bool IsWorthCompacting(int64_t size_bytes, int64_t compacted_bytes, int64_t min_bytes) {
  return size_bytes >= min_bytes && size_bytes >= 2 * compacted_bytes;
}

// Whether a record stays that was appended during the compaction. Other records are replaced by the state at the end.
inline bool StaysInTail(const JournalRecord& record) {
  return record.has_push() || record.has_removed();
}

class LivePushes {
 public:
  // Keeps only pushes into buffers for which `alive` returns true.
  explicit LivePushes(Journal::IsAlive alive) : alive_(std::move(alive)) {}

  void NoteRemoved(const JournalRecord& record) {
    removed_.insert(record.removed().chunk().begin(), record.removed().chunk().end());
  }
  // Whether the record is a push into such a buffer, with a chunk that was not removed.
  bool Keeps(const JournalRecord& record);
  // A record of the removed chunks that are in pushes that were kept; without content if there are none.
  const JournalRecord& still_removed() const { return still_removed_; }

 private:
  const Journal::IsAlive alive_;
  std::unordered_set<int64_t> removed_;
  JournalRecord still_removed_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_COMPACTION_H_
