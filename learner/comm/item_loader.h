// Turns drawn items (data/items.h) into a policy's transitions, whose rows it reads from a store.
//
//     items [B]: chunk, row, length, replay_unique_id, weight, ...
//        │ chunk
//        ▼                                 missing
//     cache of decoded chunks ◄── decode ◄── store (ChunkKey)
//        │ row, the rows that follow it in its segment, final_obs
//        ▼
//     transitions [B]: obs, action, reward, next_obs, discount, n_step, replay_unique_id, ...
//
// A batch has the columns of data/transition.h, as if drawn from a buffer of rows: the fields of
// the rows, next_obs, discount and n_step, then the columns of the items without chunk, row and
// length. An item's column replaces a column of the rows with the same name, dtype and shape.
//
// An item is one row, or a sequence of up to T rows (ItemLoaderOptions::sequences). A batch of B
// sequences has B * T rows, with row t of sequence b at b * T + t, and the columns mask and burn_in
// of replay_buffer/sequence_buffer.h. Padding repeats the last row of a shorter item. The T rows
// have the columns of their item, except that each has its own collect_iter and mask. If items are
// whole episodes, T is the length of the longest one in the batch.
//
// The n-step window of a transition ends with its segment in its chunk: if the segment is cut
// (kCut), the bootstrap value is the value of final_obs, after the rewards up to there.
//
// Collectors are not trusted: a chunk that is missing, damaged or unusable (another layout, fewer
// rows than announced, NaN, infinity, a category that does not exist) is left out with all of its
// rows, and reported. Rows have the layout in the options, or the layout of the first chunk.
//
// Ownership: owns its cache; batches keep their own blocks alive.
// Threads:   thread-safe. Nothing is locked while a chunk is read or a batch gathered; two threads
//            that miss the same chunk both read it.
// Blocking:  Load() reads the chunks that are not in the cache one after the other. While the store
//            is unavailable, Load() pauses and retries, `attempts` - 1 times in all; after that it
//            reads no more chunks.
//
// Example:
//   auto loader = ItemLoader::Create(store.get(), {}).value();
//   DING_ASSIGN_OR_RETURN(const LoadedItems loaded, loader->Load(items));
//   if (loaded.missing > 0) ... fewer rows, or none
#ifndef DING_WORKER_LEARNER_COMM_ITEM_LOADER_H_
#define DING_WORKER_LEARNER_COMM_ITEM_LOADER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

struct ItemLoaderOptions {
  int64_t nstep = 1;
  double gamma = 0.99;  // discount_factor of the config
  ItemSequences sequences;
  // Whether whole episodes become the rows of one batch, one after the other without padding, for
  // policies that learn from single rows.
  bool concatenates = false;
  // The memory for decoded chunks in the cache. The chunks of the current batch are held in
  // addition to that.
  int64_t cache_bytes = int64_t{256} << 20;
  // The most rows of cached chunks, at least 1. More rows than the buffer holds are useless.
  int64_t cache_rows = std::numeric_limits<int64_t>::max();
  int attempts = 5;
  absl::Duration pause = absl::Milliseconds(50);
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
  // The layout of rows and final observations of collectors; null: the layout of the first chunk.
  SpecPtr rows;
  SpecPtr final_obs;
  // Called with the bytes of each chunk that was read from the store, unless it is unusable; by any
  // thread. Null: nothing is called.
  std::function<void(int64_t chunk, absl::string_view bytes)> on_chunk;
};

// A chunk that the learner cannot learn from.
struct UnusableChunk {
  int64_t chunk = 0;
  absl::Status why;  // kNotFound: it is gone from the store; else it is damaged or wrong
};

// A read of the store that has not returned yet.
struct PendingRead {
  int64_t chunk = 0;
  absl::Duration since;  // how long ago it began
};

struct LoadedItems {
  // A row, or a sequence, or the rows of an episode for each item whose chunk could be read, in the
  // order of the items. A batch without rows may have no columns.
  Batch batch;
  // The number of items that were left out because their chunk is unusable or the store is
  // unavailable.
  int64_t missing = 0;
  // Why the first of these items was left out; OK if there are none.
  absl::Status why_missing;
  // The numbers of the other items, in their order.
  std::vector<int64_t> found;
  // The unusable chunks, each once.
  std::vector<UnusableChunk> unusable;
};

class ItemLoader {
 public:
  // `store` must outlive the loader. kInvalidArgument lists the options that are out of range.
  static absl::StatusOr<std::unique_ptr<ItemLoader>> Create(Store* store,
                                                            const ItemLoaderOptions& options);
  ~ItemLoader();

  // Loads the rows of `items`, which a buffer of items has drawn. They may come from a peer.
  //   kInvalidArgument    the items do not fit the options or have no replay_unique_id; they have
  //                       other columns than earlier items; or the layout of the rows makes no
  //                       transitions
  //   kResourceExhausted  there is not enough memory
  absl::StatusOr<LoadedItems> Load(const Batch& items);

  // The bytes of the chunks in the cache.
  int64_t cached_bytes() const;
  // The oldest read that is under way; nullopt if no thread waits for the store.
  std::optional<PendingRead> pending_read() const;

 private:
  class Impl;
  explicit ItemLoader(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_ITEM_LOADER_H_
