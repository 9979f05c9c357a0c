// The items that a buffer holds, by the ids of its rows: finds each once when it leaves.
//
//     ids     [begin ............... end)
//     items     7 7 7 . 8 8 . 8 9 9           '.': removed already, but not yet overwritten
//     chunks    7: 3   8: 3   9: 2            ChunkReferences
//
// Memory:  32 bytes per row of the ring and what ChunkReferences takes.
// Threads: thread-compatible: the buffer's lock is held for every call; TellRemoved() is called after
//          it was released.
#ifndef DING_WORKER_REPLAY_BUFFER_HELD_ITEMS_H_
#define DING_WORKER_REPLAY_BUFFER_HELD_ITEMS_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/replay_buffer/chunk_references.h"
#include "ding_worker/replay_buffer/removed_items.h"
#include "ding_worker/replay_buffer/row_store.h"

namespace ding {

class HeldItems {
 public:
  // All rows of `store`. kInvalidArgument if they are no items.
  static absl::StatusOr<std::unique_ptr<HeldItems>> Create(const RowStore& store);

  // The ring is now [begin, end): `rows` are its last, also those that the ring had no room for; rows
  // before `begin` left.
  void Append(const Batch& rows, int64_t begin, int64_t end, RemovedItems* removed);
  // Those of [begin, end) that are there leave.
  void Remove(int64_t begin, int64_t end, RemovedItems* removed);
  // All leave.
  void Clear(RemovedItems* removed) { EvictBefore(end_id(), removed); }

 private:
  struct Held {
    Item item;
    bool there;
  };

  explicit HeldItems(int64_t begin_id) : begin_(begin_id) {}

  int64_t end_id() const { return begin_ + static_cast<int64_t>(items_.size()); }
  void Add(absl::Span<const int64_t> chunks, absl::Span<const int64_t> rows,
           absl::Span<const int64_t> lengths);
  void EvictBefore(int64_t id, RemovedItems* removed);

  int64_t begin_;
  std::deque<Held> items_;  // by id - begin_
  ChunkReferences chunks_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_HELD_ITEMS_H_
