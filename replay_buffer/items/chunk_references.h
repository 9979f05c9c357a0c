// Counts how many items refer to each chunk of a store, so that a chunk can be deleted with its
// last item.
//
// The counts are not saved state: they are counted anew from the rows that were loaded.
//
// Memory:  about 40 bytes per chunk that items refer to.
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_ITEMS_CHUNK_REFERENCES_H_
#define DING_WORKER_REPLAY_BUFFER_ITEMS_CHUNK_REFERENCES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "ding_worker/base/check.h"

namespace ding {

class ChunkReferences {
 public:
  void Add(int64_t chunk, int64_t items) { items_[chunk] += items; }

  // Removes items of `chunk` that were added before. Returns true if they were the last ones.
  bool Remove(int64_t chunk, int64_t items) {
    const auto it = items_.find(chunk);
    DING_CHECK(it != items_.end() && it->second >= items) << "too few items of chunk " << chunk;
    it->second -= items;
    if (it->second > 0) return false;
    items_.erase(it);
    return true;
  }

  // The number of chunks that items refer to.
  int64_t chunks() const { return static_cast<int64_t>(items_.size()); }

 private:
  absl::flat_hash_map<int64_t, int64_t> items_;  // by chunk
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ITEMS_CHUNK_REFERENCES_H_
