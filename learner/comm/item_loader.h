// Turns items that were drawn from a buffer (data/items.h) into the transitions that a policy learns
// from, reading the rows from a store.
//
//     items [B]: chunk, row, length, replay_unique_id, weight, ...
//        │ chunk
//        ▼                                 missing
//     cache of decoded chunks ◄── decode ◄── store (ChunkKey)
//        │ row, the rows that follow it in its segment, final_obs
//        ▼
//     transitions [B]: obs, action, reward, next_obs, discount, n_step, replay_unique_id, weight, ...
//
// A loaded batch has the columns of data/sample_columns.h in the order of data/transition_layout.h,
// as if a buffer had held the rows: the fields of the chunk's rows, next_obs, discount and n_step,
// then the columns of the items without chunk, row and length. A column of the items that the rows
// have too, of the same dtype and shape, stands in its place.
//
// An item is one row, or a sequence of up to T rows (ItemLoaderOptions::sequences). A batch of B sequences has
// B * T rows, with row t of sequence b at b * T + t, and the columns mask and burn_in of
// replay_buffer/sequence_buffer.h: padding repeats the last row of an item that is shorter. All T rows have
// the columns of their item, except for collect_iter, which is that of each row. A mask that the rows have
// stays. Of items that are whole episodes, T is the length of the longest one that was loaded, as in
// replay_buffer/episode_buffer.h.
//
// The window of a transition ends with its segment in its chunk: where that is cut (kCut), the
// bootstrap comes from final_obs with as many rewards as there are. A buffer of rows would go on in
// the next segment; both are right.
//
// Rows have the layout that the options name, or that of the first chunk. Its blocks and those of
// batches are used again. A chunk whose rows cannot be learned from (of another layout, fewer rows
// than were announced, NaN, infinity, a category that does not exist), that is damaged or gone, is
// left out with all of its rows, and named: what collectors announce is not trusted.
//
// Ownership: owns its cache; batches keep their own blocks alive.
// Threads:   thread-safe. Nothing is locked while a chunk is read or a batch gathered; two threads
//            that miss the same chunk both read it.
// Blocking:  Load() reads the chunks that are not kept one after the other. While the store is
//            unavailable it pauses and tries again, `attempts` - 1 times in all; then it asks for
//            no more chunks.
//
// Example:
//   auto loader = ItemLoader::Create(store.get(), {}).value();
//   DING_ASSIGN_OR_RETURN(const LoadedItems loaded, loader->Load(items));
//   if (loaded.missing > 0) ... fewer rows, or none
#ifndef DING_WORKER_LEARNER_COMM_ITEM_LOADER_H_
#define DING_WORKER_LEARNER_COMM_ITEM_LOADER_H_

#include <cstdint>
#include <functional>
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
  // Memory for decoded chunks that are kept; those of one batch are held beside it.
  int64_t cache_bytes = int64_t{256} << 20;
  int attempts = 5;
  absl::Duration pause = absl::Milliseconds(50);
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
  // The layout of rows and final observations of collectors; null: that of the first chunk.
  SpecPtr rows;
  SpecPtr final_obs;
};

// A chunk that cannot be learned from.
struct UnusableChunk {
  int64_t chunk = 0;
  absl::Status why;  // kNotFound: it is gone from the store; else it is damaged or wrong
};

// A read of the store that has not come back.
struct PendingRead {
  int64_t chunk = 0;
  absl::Duration since;  // its beginning
};

struct LoadedItems {
  // A row, or a sequence, for each item whose chunk could be had, in the order of the items. Without
  // any, it may have no columns.
  Batch batch;
  // Items that were left out: their chunk is unusable, or the store unavailable.
  int64_t missing = 0;
  // Why the first of them is missing; OK if none is.
  absl::Status why_missing;
  // Each once.
  std::vector<UnusableChunk> unusable;
};

class ItemLoader {
 public:
  // `store` must outlive the loader. kInvalidArgument lists the options that are out of range.
  static absl::StatusOr<std::unique_ptr<ItemLoader>> Create(Store* store,
                                                            const ItemLoaderOptions& options);

  // `items` as a buffer of items draws them; they may come from a peer.
  //   kInvalidArgument    not items as the options say, with replay_unique_id; other columns than those
  //                       of the items before; the layout of the rows is none of transitions
  //   kResourceExhausted  no memory
  absl::StatusOr<LoadedItems> Load(const Batch& items);

  // The bytes of the chunks that are kept.
  int64_t cached_bytes() const { return cache_.bytes(); }
  // The oldest read that is under way; none: no thread waits for the store.
  std::optional<PendingRead> pending_read() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Layout;
  using ChunkPtr = ChunkCache::ChunkPtr;
  // Where a row of an item that is not missing lies.
  struct Source {
    const DecodedChunk* chunk;
    int64_t row;
    int64_t item;
    bool is_padding;
  };
  // Where the rows of such an item lie.
  struct Sequence {
    const DecodedChunk* chunk;
    int64_t row;
    int64_t rows;
    int64_t item;
  };

  ItemLoader(Store* store, const ItemLoaderOptions& options);

  // Null entries are missing.
  absl::Status FindChunks(absl::Span<const int64_t> chunks, std::vector<ChunkPtr>* found,
                          LoadedItems* loaded);
  // `pauses` that may still be made.
  absl::StatusOr<ChunkPtr> ReadChunk(int64_t chunk, int* pauses);
  absl::Status GetBytes(int64_t chunk, int* pauses, std::string* bytes) const;
  absl::StatusOr<std::shared_ptr<Layout>> LayoutFor(const SegmentBatch& chunk, const SpecPtr& items)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a column that items have is that of the rows all the same: an item of several rows only knows the
  // collect_iter of the first one.
  bool IsOfRows(absl::string_view column, const Spec& rows) const;
  static absl::Status CheckChunk(const SegmentBatch& chunk, const Layout& layout);
  // The values, and the layout if the options name one.
  absl::Status CheckRows(const SegmentBatch& chunk) const;
  // Whether the rows of an item are there.
  absl::Status CheckPlace(const DecodedChunk& chunk, size_t item, const Item& place) const;
  // The rows of the sequences of one batch, padding included.
  int64_t LengthOf(const std::vector<Sequence>& sequences) const;
  // `length` rows of each.
  static std::vector<Source> SourcesOf(const std::vector<Sequence>& sequences, int64_t length);
  absl::StatusOr<Batch> Gather(const Batch& items, const std::vector<Source>& sources,
                               int64_t length, Layout* layout) const;
  void FillSequenceColumns(const std::vector<Source>& sources, int64_t length,
                           const TransitionLayout& layout, BatchBuilder* block) const;
  // `sources` are not empty.
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
