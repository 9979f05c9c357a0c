// An LRU cache of decoded chunks of a store, bounded by their memory and their rows.
//
// Chunks never change, so a cached chunk is never stale. A chunk that was deleted from the store
// stays in the cache.
//
// Ownership: the cache and its users share the chunks.
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

  // The memory of the chunk and of its cache entry. The blocks of `data` have room for its rows
  // only.
  int64_t bytes() const;

  const SegmentBatch data;
  // The addresses of the columns of data.rows, then of data.final_obs.
  std::vector<const std::byte*> columns;
  std::vector<int32_t> segment_of_row;
};

class ChunkCache {
 public:
  using ChunkPtr = std::shared_ptr<const DecodedChunk>;

  // The chunk that was inserted last is kept even if it is larger than `max_bytes` or `max_rows`.
  ChunkCache(int64_t max_bytes, int64_t max_rows) : max_bytes_(max_bytes), max_rows_(max_rows) {}

  // Sets each element of `chunks` to the chunk of that number, or to null if it is not in the
  // cache.
  void Find(absl::Span<const int64_t> numbers, absl::Span<ChunkPtr> chunks)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Inserts a chunk, or replaces the chunk of that number.
  void Insert(int64_t number, ChunkPtr chunk) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Entry = std::pair<int64_t, ChunkPtr>;

  void Count(const DecodedChunk& chunk, int sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_bytes_;
  const int64_t max_rows_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the chunk that was used last is the first
  absl::flat_hash_map<int64_t, std::list<Entry>::iterator> places_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_CHUNK_CACHE_H_
