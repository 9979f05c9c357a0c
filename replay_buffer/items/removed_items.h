// The report of a buffer of items (data/items.h) about items that left it, so that its owner can
// delete their data (used_data_remover.h).
//
// An item leaves when it is overwritten, was drawn max_use times, is found too stale, or is
// cleared. Each item is reported once, by the thread whose call removed it. That thread has
// released the buffer's lock, so the callback may call the buffer. Two threads may report at the
// same time, and not in the order in which the items left. Items that LoadState() replaces are not
// reported, since the new content may refer to the same data.
//
// Items of batches that are still in use leave too; items that a draw uses up leave even before
// that draw returns. So the owner must delay deletion until the batches drawn before are done.
//
// Example:
//   UsedDataRemover remover(DeleteFilesIn(path_data));
//   options.on_removed = [&remover](const RemovedItems& removed) {
//     for (const int64_t chunk : removed.chunks) remover.Add(FileOfChunk(chunk));
//   };
#ifndef DING_WORKER_REPLAY_BUFFER_ITEMS_REMOVED_ITEMS_H_
#define DING_WORKER_REPLAY_BUFFER_ITEMS_REMOVED_ITEMS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ding_worker/data/items.h"

namespace ding {

struct RemovedItems {
  std::vector<Item> items;
  // The chunks whose last item is among `items`. A chunk that gets items again later is reported
  // again.
  std::vector<int64_t> chunks;
};

// The callback of a buffer. If it throws, Push() or Sample() returns an error, although the rows were pushed or
// drawn. If it is not set, the buffer keeps nothing for it.
using OnRemoved = std::function<void(const RemovedItems&)>;

// Calls `on_removed` if it is set and `removed` has items.
inline void TellRemoved(const OnRemoved& on_removed, const RemovedItems& removed) {
  if (!removed.items.empty() && on_removed != nullptr) on_removed(removed);
}

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ITEMS_REMOVED_ITEMS_H_
