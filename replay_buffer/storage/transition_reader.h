// Turns drawn rows of a RowStore into a batch of transitions with the columns of
// data/sample_columns.h: the stored columns, n-step reward and discount, and next_obs. All buffers
// use it, also those that draw sequences.
//
// It works in steps, so that the owner's lock is held for the first only:
//   Resolve  follows the links of each row over its window, finds the frames of its stacks, and
//            pins what it found                                                (with the lock)
//   Gather   copies the columns into the block of the batch                    (without the lock)
//   Seal     makes a batch of the block                                        (without the lock)
//
// Shapes:    as in data/transition.h; replay_unique_id is the row's id.
// Ownership: shares the store. A draw must not outlive the reader.
// Threads:   as RowStore: the caller holds the owner's lock for every call, except for
//            GatherStored(), Gather() and Seal().
//
// Example:
//   std::optional<TransitionDraw> draw;
//   {
//     MutexLock lock(&mutex_);
//     DING_RETURN_IF_ERROR(reader->Start(size, &draw));
//     ... fill draw->ids() with ids of valid rows
//     reader->Resolve(&*draw);
//   }
//   reader->Gather(&*draw);
//   return reader->Seal(&*draw);
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_TRANSITION_READER_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_TRANSITION_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/fixed_array.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/transition.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

// One draw while it becomes a batch.
class TransitionDraw {
 public:
  // `block` may have room for more than `size` rows.
  TransitionDraw(BatchBuilder block, int64_t size, int id_field, int frames_per_row)
      : block_(std::move(block)),
        ids_(block_.column<int64_t>(id_field).first(static_cast<size_t>(size))),
        rows_(ids_.size()),
        next_obs_(ids_.size()),
        frames_(ids_.size() * static_cast<size_t>(frames_per_row)),
        next_frames_(frames_.size()) {}

  // The ids of the rows, which the caller fills in.
  absl::Span<int64_t> ids() { return ids_; }
  // A scalar column that the owner adds to the batch; the caller fills it before Gather().
  template <typename T>
  absl::Span<T> column(int field) {
    return block_.column<T>(field).first(ids_.size());
  }
  // All columns, for an owner that changes them between Gather() and Seal().
  MutableColumnsView columns() { return block_.view().Slice(0, static_cast<int64_t>(ids_.size())); }
  // Numbers that the owner keeps from Draw() on.
  std::vector<float>& notes() { return notes_; }

 private:
  friend class TransitionReader;

  BatchBuilder block_;
  const absl::Span<int64_t> ids_;  // column replay_unique_id of the block
  absl::FixedArray<RowLocation, 256> rows_;
  absl::FixedArray<RowLocation, 256> next_obs_;
  // RowStore::frames_per_row() for each row.
  std::vector<FrameLocation> frames_;
  std::vector<FrameLocation> next_frames_;
  RowPin pin_;
  std::vector<float> notes_;
};

class TransitionReader {
 public:
  // `added` are the columns that the owner fills in for each draw.
  //   kInvalidArgument  an error of MakeTransitionLayout(), or the rows are items and nstep is not
  //                     1
  static absl::StatusOr<std::shared_ptr<TransitionReader>> Create(
      std::shared_ptr<RowStore> store, int64_t nstep, double gamma,
      absl::Span<const FieldSpec> added = {});

  RowStore& store() const { return *store_; }
  // The spec of the batches.
  const SpecPtr& spec() const { return pool_.spec(); }

  // Begins a draw of `size` rows. kResourceExhausted, with the sum, if there is not that much
  // memory.
  absl::Status Start(int64_t size, std::optional<TransitionDraw>* draw);
  // Locates all data of the rows in draw->ids(), which must be ids of valid rows, and pins them.
  void Resolve(TransitionDraw* draw) const;
  // Copies one stored field of the drawn rows to `to`. Called between Resolve() and Gather(), and
  // like Gather() without the lock.
  void GatherStored(const TransitionDraw& draw, int field, std::byte* to) const;
  // Copies all columns.
  void Gather(TransitionDraw* draw) const;
  // Returns the batch. `draw` must not be used again.
  Batch Seal(TransitionDraw* draw) const;

 private:
  TransitionReader(std::shared_ptr<RowStore> store, TransitionLayout layout, int64_t nstep,
                   double gamma);

  void ReadAhead(const TransitionDraw& draw) const;
  void ResolveItems(TransitionDraw* draw) const;
  void ResolveOneStep(TransitionDraw* draw) const;
  void ResolveWindows(TransitionDraw* draw) const;
  void ResolveStacks(size_t row, const RowSuccessor& next, TransitionDraw* draw) const;

  const std::shared_ptr<RowStore> store_;
  const TransitionLayout layout_;
  const bool items_;
  const int64_t nstep_;
  const double gamma_;
  BlockPool pool_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_TRANSITION_READER_H_
