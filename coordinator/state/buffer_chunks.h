// The chunks of one buffer whose data lie in the store: which of them may be drawn, and when they
// may be deleted.
//
//     Add ──► held ──Leave──► left ──TakeDeletable──► (deleted)
//               │ MarkBad       │ MarkBad
//               ▼               ▼
//              bad ──Leave──► (gone)           the rows of a bad chunk stay in the buffer until its
//                                              rules evict them, and are not drawn meanwhile
//
// A chunk that has left may be in the answers to all demands whose drawing began before. So the
// chunk waits until these answers are read, but not for later demands:
//
//     BeginDraw(1)   BeginDraw(2)   Leave(chunk 7)   BeginDraw(3)   Read(2)
//     ─────┴──────────────┴───────────────┴───────────────┴────────────┴───► TakeDeletable: 7
//
// Memory:    about 16 bytes per chunk.
// Ownership: a value.   Threads: thread-compatible; what undrawable() returns is immutable.
#ifndef DING_WORKER_COORDINATOR_STATE_BUFFER_CHUNKS_H_
#define DING_WORKER_COORDINATOR_STATE_BUFFER_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"

namespace ding {

using ChunkSet = absl::flat_hash_set<int64_t>;

class BufferChunks {
 public:
  enum class Marked {
    kUnknown,  // no chunk of this buffer, or it was marked before
    kHeld,     // the caller deletes its data now
    kLeft,     // it has left the buffer, and TakeDeletable() will return it
  };

  // Adds chunks that are about to be pushed.
  void Add(absl::Span<const int64_t> chunks);
  // Forgets chunks that could not be pushed.
  void Forget(absl::Span<const int64_t> chunks);
  // Notes that chunks have left the buffer.
  void Leave(absl::Span<const int64_t> chunks);
  // Notes that a learner cannot learn from the chunk.
  Marked MarkBad(int64_t chunk);

  // Notes that the learner's demand number `sequence` is about to be drawn. The numbers grow.
  void BeginDraw(uint64_t sequence) { unread_[sequence] = ++draws_; }
  // Notes that the demand was not answered.
  void CancelDraw(uint64_t sequence) { unread_.erase(sequence); }
  // Notes that the learner has read the answers to all demands up to this one.
  void Read(uint64_t sequence) { unread_.erase(unread_.begin(), unread_.upper_bound(sequence)); }
  // Notes that the learner is gone. The next one numbers its demands anew.
  void ForgetReader() { unread_.clear(); }
  // Returns the number of demands that were drawn, and whose answers were not read yet.
  size_t unread() const { return unread_.size(); }
  // Forgets the chunks that have left and that no learner still reads. Returns them in the order in
  // which they left.
  std::vector<int64_t> TakeDeletable();

  // The number of good chunks that lie in the store.
  int64_t stored() const { return static_cast<int64_t>(chunks_.size() - bad_->size()); }
  // The number of chunks that were ever added, and that were ever marked.
  int64_t added() const { return added_; }
  int64_t marked() const { return marked_; }
  // The chunks whose rows are in the buffer and must not be drawn.
  std::shared_ptr<const ChunkSet> undrawable() const { return bad_; }

 private:
  enum class State : uint8_t { kHeld, kBad, kLeft, kLeftBad };
  struct Left {
    int64_t chunk;
    uint64_t draws;  // the number of draws that had begun when it left
  };

  // Returns bad_, for a change of it.
  ChunkSet* MutableBad();

  absl::flat_hash_map<int64_t, State> chunks_;
  std::shared_ptr<ChunkSet> bad_ = std::make_shared<ChunkSet>();  // those in state kBad
  std::deque<Left> left_;                // those in states kLeft and kLeftBad
  uint64_t draws_ = 0;                   // the number of draws that have begun
  std::map<uint64_t, uint64_t> unread_;  // number of the draw, by sequence; both grow
  int64_t added_ = 0;
  int64_t marked_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_BUFFER_CHUNKS_H_
