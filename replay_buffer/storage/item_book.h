// The items that a buffer holds, by the ids of its rows. It finds each item exactly once when the
// item leaves the buffer.
//
//     ids     [begin ............... end)
//     items     7 7 7 . 8 8 . 8 9 9           '.': removed already, but not yet overwritten
//     chunks    7: 3   8: 3   9: 2            ChunkReferences
//
// Memory:  24 to 48 bytes per row of the ring, and the memory of ChunkReferences.
// Threads: thread-compatible: the caller holds the buffer's lock for every call, and calls
//          TellRemoved() after releasing it.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_ITEM_BOOK_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_ITEM_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

// Counts how many items refer to each chunk of a store, so that a chunk can be deleted with its
// last item.
//
// The counts are not saved state: they are counted anew from the rows that were loaded.
//
// Memory:  about 40 bytes per chunk that items refer to.
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

class ItemBook {
 public:
  // Creates an object that holds all rows of `store`. kInvalidArgument if they are not items.
  static absl::StatusOr<std::unique_ptr<ItemBook>> Create(const RowStore& store);

  // Must be called when the ring has become [begin, end) by a push of `rows`, which include rows
  // that the ring had no room for. Adds `rows` and removes the rows before `begin`.
  void Append(const Batch& rows, int64_t begin, int64_t end, RemovedItems* removed);
  // Removes the items of rows [begin, end) that were not removed before.
  void Remove(int64_t begin, int64_t end, RemovedItems* removed);
  // Removes all items.
  void Clear(RemovedItems* removed) { EvictBefore(end_, removed); }

 private:
  static constexpr int64_t kRemoved = std::numeric_limits<int64_t>::min();

  explicit ItemBook(int64_t begin_id) : begin_(begin_id), end_(begin_id) {}

  // Makes room for so many further items.
  void Reserve(size_t items);
  Item& At(int64_t id) { return ring_[static_cast<size_t>(id) & (ring_.size() - 1)]; }
  void Add(absl::Span<const int64_t> chunks, absl::Span<const int64_t> rows,
           absl::Span<const int64_t> lengths);
  void EvictBefore(int64_t id, RemovedItems* removed);

  // The ids of the items that are held.
  int64_t begin_;
  int64_t end_;
  std::vector<Item>
      ring_;  // At(id); of length kRemoved: removed already. Its size is 0 or a power of 2
  ChunkReferences chunks_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_ITEM_BOOK_H_
