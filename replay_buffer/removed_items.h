// What a buffer of items (data/items.h) tells about those that left it, so that its owner can delete
// their data (used_data_remover.h).
//
// Leaving is being overwritten, drawn max_use times, found too stale, or cleared. Each item is told
// once, by the thread whose call removed it and after the buffer's lock was released: the owner may
// call the buffer. Two threads may tell at the same time, and not in the order in which the items
// left. What LoadState() replaces is not told: the new content may refer to the same data.
//
// Items of batches that are still in use leave too, those used up by a draw even before that draw
// returns. Whoever deletes data lets pass what was drawn before.
//
// Example:
//   UsedDataRemover remover(DeleteFilesIn(path_data));
//   options.on_removed = [&remover](const RemovedItems& removed) {
//     for (const int64_t chunk : removed.chunks) remover.Add(FileOfChunk(chunk));
//   };
#ifndef DING_WORKER_REPLAY_BUFFER_REMOVED_ITEMS_H_
#define DING_WORKER_REPLAY_BUFFER_REMOVED_ITEMS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ding_worker/data/items.h"

namespace ding {

struct RemovedItems {
  std::vector<Item> items;
  // Whose last item is among them. One that gets items again afterwards is told again.
  std::vector<int64_t> chunks;
};

// Must not throw. Not set: nothing is kept for it.
using OnRemoved = std::function<void(const RemovedItems&)>;

// Tells, if there is something to tell and somebody to be told.
inline void TellRemoved(const OnRemoved& on_removed, const RemovedItems& removed) {
  if (!removed.items.empty() && on_removed != nullptr) on_removed(removed);
}

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_REMOVED_ITEMS_H_
