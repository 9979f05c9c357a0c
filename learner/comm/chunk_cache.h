// Decoded chunks of a store, bounded by their memory: the ones used last are kept.
//
// A chunk never changes, so that nothing in here is ever stale; one that was deleted in the store
// meanwhile is given all the same.
//
// Ownership: whoever was given a chunk shares it.
// Threads:   thread-safe.
#ifndef DING_WORKER_LEARNER_COMM_CHUNK_CACHE_H_
#define DING_WORKER_LEARNER_COMM_CHUNK_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/segment.h"

namespace ding {

struct DecodedChunk {
  explicit DecodedChunk(SegmentBatch decoded);

  int64_t bytes() const;

  const SegmentBatch data;
  // The beginnings of the columns of data.rows, then of those of data.final_obs.
  std::vector<const std::byte*> columns;
  std::vector<int32_t> segment_of_row;
};

class ChunkCache {
 public:
  using ChunkPtr = std::shared_ptr<const DecodedChunk>;

  // The last chunk is kept even if it is larger.
  explicit ChunkCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // For each number its chunk, or null.
  void Find(absl::Span<const int64_t> numbers, absl::Span<ChunkPtr> chunks)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Replaces the chunk of that number.
  void Insert(int64_t number, ChunkPtr chunk) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Entry = std::pair<int64_t, ChunkPtr>;

  const int64_t max_bytes_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the one used last is the first
  absl::flat_hash_map<int64_t, std::list<Entry>::iterator> places_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_CHUNK_CACHE_H_
