// The rows of a RowStore in columns, by id: a ring of blocks whose oldest rows are evicted first.
//
//     begin_id                                                end_id
//        │   block 7             block 8             block 9     │
//        ▼   obs     [ . . . . ] [ . . . . ]         [ . . .     ▼
//            action  [ . . . . ] [ . . . . ]         [ . . .
//            link    [ . . . . ] [ . . . . ]         [ . . .       LinkedRows
//            previous[ . . . . ] [ . . . . ]         [ . . .       FrameStore; with stacks only
//
// Rows are numbered by a 64-bit id in the order of arrival, and an id is never used again. The row
// with a given id lies in block (id / rows per block). A block is one allocation with all columns
// (RowLayout). For an observation field that stacks frames it has a column of single frames, which
// FrameStore fills.
//
// Ownership: owns the rows and their memory.
// Threads:   the caller holds the owner's lock for every call, except for spec(), obs_fields(),
//            layout(), IsStack() and At() of pinned rows.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_RING_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_RING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"

namespace ding {

class RowRing {
 public:
  // The first `obs_fields` fields of `rows` are the observation. The first row's id is 0.
  RowRing(SpecPtr rows, int obs_fields, int64_t capacity_rows);

  // Valid ids are [begin_id, end_id).
  int64_t begin_id() const { return begin_; }
  int64_t end_id() const { return end_; }
  int64_t size() const { return end_ - begin_; }
  int64_t capacity_rows() const { return capacity_rows_; }

  const SpecPtr& spec() const { return spec_; }
  int obs_fields() const { return obs_fields_; }
  const RowLayout& layout() const { return layout_; }
  // Whether field `field` is a stack, of which a row stores only the newest frame.
  bool IsStack(int field) const { return layout_.stored_bytes[field] != spec_->row_bytes(field); }

  RowLocation Locate(int64_t id) const { return {blocks_[PlaceOf(id)].get(), id & row_mask_}; }
  // The address of field `field` of a row, or of a side slot if the field is an observation field
  // that is not a stack.
  const std::byte* At(const RowLocation& location, int field) const {
    return location.block + layout_.offsets[field] + location.row * layout_.stored_bytes[field];
  }
  std::byte* MutableAt(const RowLocation& location, int field) {
    return const_cast<std::byte*>(At(location, field));
  }
  // The values of a row in the columns `link` and `previous`, and where they lie.
  int32_t LinkOf(int64_t id) const { return *NumberOf(id, layout_.links_offset); }
  int32_t PreviousOf(int64_t id) const { return *NumberOf(id, layout_.previous_offset); }
  const int32_t* LinksAt(int64_t id) const { return NumberOf(id, layout_.links_offset); }
  int32_t* MutableLinksAt(int64_t id) { return NumberOf(id, layout_.links_offset); }
  int32_t* MutablePreviousAt(int64_t id) { return NumberOf(id, layout_.previous_offset); }

  // The table of blocks has places() entries, some of which are empty. PlaceOf() is the entry of
  // the block that holds row `id`.
  int64_t places() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t PlaceOf(int64_t id) const { return (id >> block_shift_) & place_mask_; }
  // Whether evicting the rows before `id` releases a block.
  bool ReleasesBlocks(int64_t id) const { return BlockOf(id) > first_block_; }
  // Calls f(first id, rows) for each block's part of [begin, end).
  template <typename F>
  void ForEachPiece(int64_t begin, int64_t end, F f) const {
    while (begin < end) {
      const int64_t piece_end = std::min(end, (BlockOf(begin) + 1) << block_shift_);
      f(begin, piece_end - begin);
      begin = piece_end;
    }
  }

  // Allocates the blocks that Append() of `rows` rows at `first_id` needs beyond those that
  // evicting the oldest rows releases. kResourceExhausted: out of memory.
  absl::Status Reserve(int64_t first_id, int64_t rows);
  void EvictBefore(int64_t id);
  // Drops all rows. The next row gets `id`, which is not below end_id().
  void StartAt(int64_t id);
  // Adds `rows` rows, for which Reserve() has allocated blocks. The caller then fills their
  // columns.
  void Append(int64_t rows);
  // Copies the fields that are not stacks into the rows from `first_id` on.
  void CopyColumns(const ColumnsView& from, int64_t first_id);

  RowMemory& memory() { return memory_; }
  const RowMemory& memory() const { return memory_; }

 private:
  int64_t BlockOf(int64_t id) const { return id >> block_shift_; }
  int32_t* NumberOf(int64_t id, int64_t offset) const {
    return reinterpret_cast<int32_t*>(blocks_[PlaceOf(id)].get() + offset) + (id & row_mask_);
  }
  void ReleaseBlocksBefore(int64_t block);

  const SpecPtr spec_;
  const int obs_fields_;
  const int64_t capacity_rows_;
  const RowLayout layout_;
  const int block_shift_;
  const int64_t row_mask_;
  int64_t place_mask_ = 0;

  int64_t begin_ = 0;
  int64_t end_ = 0;
  // Blocks [first_block_, end_block_), each at its number modulo the size of the table.
  std::vector<RowMemory::Block> blocks_;
  int64_t first_block_ = 0;
  int64_t end_block_ = 0;
  RowMemory memory_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_RING_H_
