// The chunks of one buffer whose data lie in the store, and which of them cannot be learned from.
//
//     Add ──► held ──Leave──► left ──Forget──► (deleted)
//               │ MarkBad       │ MarkBad
//               ▼               ▼
//              bad ──Leave──► (gone)           the rows of a bad one stay in the buffer until they
//                                              leave by its rules, and are not drawn meanwhile
//
// Memory:    about 16 bytes per chunk.
// Ownership: a value.   Threads: thread-compatible; what undrawable() returns is immutable.
#ifndef DING_WORKER_COORDINATOR_STATE_KNOWN_CHUNKS_H_
#define DING_WORKER_COORDINATOR_STATE_KNOWN_CHUNKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"

namespace ding {

using ChunkSet = absl::flat_hash_set<int64_t>;

class KnownChunks {
 public:
  enum class Marked {
    kUnknown,  // no chunk of this buffer, or it was marked before
    kHeld,     // its data are to be deleted now
    kLeft,     // it has left the buffer, and its data are deleted when nobody reads them
  };

  // Adds chunks that are about to be pushed.
  void Add(absl::Span<const int64_t> chunks);
  // Forgets chunks that are not in the store any more, or were never pushed.
  void Forget(absl::Span<const int64_t> chunks);
  // Notes that chunks have left the buffer. Returns those whose data are still in the store.
  std::vector<int64_t> Leave(absl::Span<const int64_t> chunks);
  // Notes that a learner cannot learn from the chunk.
  Marked MarkBad(int64_t chunk);

  // The number of good chunks that lie in the store.
  int64_t stored() const { return static_cast<int64_t>(chunks_.size() - bad_.size()); }
  // The number of chunks that were ever added.
  int64_t added() const { return added_; }
  int64_t marked() const { return marked_; }
  // The chunks whose rows are in the buffer and must not be drawn; null if there are none.
  std::shared_ptr<const ChunkSet> undrawable();

 private:
  enum class State : uint8_t { kHeld, kBad, kLeft, kLeftBad };

  absl::flat_hash_map<int64_t, State> chunks_;
  ChunkSet bad_;                                // those in state kBad
  std::shared_ptr<const ChunkSet> undrawable_;  // a copy of bad_; null: to be made
  int64_t added_ = 0;
  int64_t marked_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_KNOWN_CHUNKS_H_
