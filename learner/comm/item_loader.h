// Turns items that were drawn from a buffer (data/items.h) into the transitions that a policy learns from. It reads the
// rows from a store.
//
//     items [B]: chunk, row, length, replay_unique_id, weight, ...
//        │ chunk
//        ▼                                 missing
//     cache of decoded chunks ◄── decode ◄── store (ChunkKey)
//        │ row, the rows that follow it in its segment, final_obs
//        ▼
//     transitions [B]: obs, action, reward, next_obs, discount, n_step, replay_unique_id, weight, ...
//
// A loaded batch has the columns of data/sample_columns.h in the order of data/transition_layout.h, as if a buffer had
// held the rows: the fields of the chunk's rows, next_obs, discount and n_step, and then the columns of the items
// without chunk, row and length. If the rows have a column of an item, with the same dtype and shape, the item's column
// replaces it.
//
// An item is one row, or a sequence of up to T rows (ItemLoaderOptions::sequences). A batch of B sequences has
// B * T rows, with row t of sequence b at b * T + t, and the columns mask and burn_in of
// replay_buffer/sequence_buffer.h: padding repeats the last row of an item that is shorter. All T rows have
// the columns of their item, except for collect_iter, which is that of each row. A mask that the rows have
// stays. If items are whole episodes, T is the length of the longest one that was loaded, as in
// replay_buffer/episode_buffer.h.
//
// The window of a transition ends with its segment in its chunk. If the segment is cut (kCut), the bootstrap comes from
// final_obs, with the rewards up to there. A buffer of rows would continue in the next segment; both are valid targets.
//
// Rows have the layout that the options name, or that of the first chunk. Blocks of batches are used again. Since collectors are not trusted, chunks are checked: a chunk that is damaged or missing is left out with all
// of its rows, and reported, and so is one that cannot be learned from (another layout, fewer rows than were announced,
// NaN, infinity, a category that does not exist).
//
// Ownership: owns its cache; batches keep their own blocks alive.
// Threads:   thread-safe. Nothing is locked while a chunk is read or a batch gathered; two threads
//            that miss the same chunk both read it.
// Blocking:  Load() reads the chunks that are not in the cache one after the other. While the store is unavailable it
//            pauses and tries again, `attempts` - 1 times in all; after that it reads no more chunks.
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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/transition_layout.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/chunk_cache.h"

namespace ding {

struct ItemLoaderOptions {
  int64_t nstep = 1;
  double gamma = 0.99;  // discount_factor of the config
  ItemSequences sequences;
  // The memory for decoded chunks in the cache. The chunks of the current batch are held in addition to that.
  int64_t cache_bytes = int64_t{256} << 20;
  // The rows of these chunks, at least 1. More than the buffer holds are of no use.
  int64_t cache_rows = std::numeric_limits<int64_t>::max();
  int attempts = 5;
  absl::Duration pause = absl::Milliseconds(50);
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
  // The layout of rows and final observations of collectors; null: that of the first chunk.
  SpecPtr rows;
  SpecPtr final_obs;
  // Called with the bytes of each chunk that was read from the store, unless it is unusable; by any thread. Null: not.
  std::function<void(int64_t chunk, absl::string_view bytes)> on_chunk;
};

// A chunk that cannot be learned from.
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
  // A row, or a sequence, for each item whose chunk could be read, in the order of the items. A batch without rows may
  // have no columns.
  Batch batch;
  // The number of items that were left out because their chunk is unusable or the store is unavailable.
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

  // Loads the rows of `items`, which a buffer of items has drawn. They may come from a peer.
  //   kInvalidArgument    the items are not as the options say, or have no replay_unique_id; they have other columns than
  //                       the items before; or no transitions can be made of the layout of the rows
  //   kResourceExhausted  there is not enough memory
  absl::StatusOr<LoadedItems> Load(const Batch& items);

  // The bytes of the chunks in the cache.
  int64_t cached_bytes() const { return cache_.bytes(); }
  // The oldest read that is under way; nullopt if no thread waits for the store.
  std::optional<PendingRead> pending_read() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Layout;
  using ChunkPtr = ChunkCache::ChunkPtr;
  // Where a row of an item is that is not missing.
  struct Source {
    const DecodedChunk* chunk;
    int64_t row;
    int64_t item;
    bool is_padding;
  };
  // Where the rows of such an item are.
  struct Sequence {
    const DecodedChunk* chunk;
    int64_t row;
    int64_t rows;
    int64_t item;
  };

  ItemLoader(Store* store, const ItemLoaderOptions& options);

  // Finds the chunks in the cache or the store. Entries of `found` that are null are missing.
  absl::Status FindChunks(absl::Span<const int64_t> chunks, std::vector<ChunkPtr>* found,
                          LoadedItems* loaded);
  // Reads a chunk. `*pauses` is how many pauses may still be made.
  absl::StatusOr<ChunkPtr> ReadChunk(int64_t chunk, int* pauses);
  absl::Status GetBytes(int64_t chunk, int* pauses, std::string* bytes) const;
  absl::StatusOr<std::shared_ptr<Layout>> LayoutFor(const SegmentBatch& chunk, const SpecPtr& items)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the batch gets this column of the rows although items have it, too: an item of several rows has only the
  // collect_iter of the first one.
  bool IsOfRows(absl::string_view column, const Spec& rows) const;
  static absl::Status CheckChunk(const SegmentBatch& chunk, const Layout& layout);
  // Checks the values, and the layout if the options name one.
  absl::Status CheckRows(const SegmentBatch& chunk) const;
  // Checks that the chunk has the rows of an item.
  absl::Status CheckPlace(const DecodedChunk& chunk, size_t item, const Item& place) const;
  // The number of rows of each sequence of a batch, padding included.
  int64_t LengthOf(const std::vector<Sequence>& sequences) const;
  // Returns `length` rows of each sequence.
  static std::vector<Source> SourcesOf(const std::vector<Sequence>& sequences, int64_t length);
  absl::StatusOr<Batch> Gather(const Batch& items, const std::vector<Source>& sources,
                               int64_t length, Layout* layout) const;
  void FillSequenceColumns(const std::vector<Source>& sources, int64_t length,
                           const TransitionLayout& layout, BatchBuilder* block) const;
  // `sources` must not be empty.
  void GatherItemColumns(const Batch& items, const std::vector<Source>& sources,
                         const MutableColumnsView& to) const;

  Store* const store_;
  const ItemLoaderOptions options_;
  ChunkCache cache_;
  mutable Mutex mutex_;
  std::map<int64_t, std::pair<int64_t, Timer>> reads_
      ABSL_GUARDED_BY(mutex_);  // chunk and beginning, in the order of their beginning
  int64_t reads_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  // Null until the first chunk.
  std::shared_ptr<Layout> layout_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> scratch_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_ITEM_LOADER_H_
