// The frames of stacked observations (FieldSpec::frame_stack_axis) of linked rows, each stored
// once. A row holds the newest frame of its stack; the older frames are those of the rows before it
// in its stream:
//
//     rows of a stream      r4      r5      r6      r7          stack of r7: frames 4 5 6 7
//     newest frame          [4]     [5]     [6]     [7]
//     previous               |  ◄── 1   ◄── 1   ◄── 1
//                            └► side slot [1 2 3 .]
//
// `previous` is the number of rows back to the predecessor. If the stack of a row is not its
// predecessor's stack shifted by one frame, `previous` is ~slot instead, and the older frames lie
// in that side slot. This happens at the first row of an episode, at a row after lost steps, and
// wherever the env builds its stacks in another way. So every stack is returned byte for byte; only
// its cost depends on the data. If the observation after a row lies in a side slot, its whole stack
// lies there.
//
// Evicted rows keep their frames until their block is released. Before a block is released, each
// valid row with an evicted predecessor gets a slot of its own.
//
// If no field is a stack, only frames_per_row() and StartAt() may be called.
//
// Ownership: refers to the rows, which must outlive it.
// Threads:   the caller holds the owner's lock for every call, except for Gather() of pinned rows.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_FRAME_STORE_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_FRAME_STORE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/storage/linked_rows.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"

namespace ding {

// The location of one frame of a row's stacks. It is the same for all fields that are stacks.
struct FrameLocation {
  static constexpr int kNewestOfRow = -1;

  RowLocation at;
  int age;  // kNewestOfRow: `at` is a row; else `at` is a side slot, and its newest frame has age 0
};

class FrameStore {
 public:
  explicit FrameStore(LinkedRows* rows);

  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;

  // The number of frames of the longest stack; 0 if no field is a stack.
  int frames_per_row() const { return frames_per_row_; }
  // Locates the frames of a row, or of the observation after one, the newest first: as many as
  // `frames` has room for, which is at most frames_per_row().
  void Locate(int64_t id, absl::Span<FrameLocation> frames) const;
  void Locate(const RowSuccessor& next, absl::Span<FrameLocation> frames) const;
  // The address of one field's frame. The field may have fewer frames than frames_per_row().
  const std::byte* At(const FrameLocation& frame, const RowLayout::Stack& stack) const {
    if (frame.age == FrameLocation::kNewestOfRow) return rows_->At(frame.at, stack.field);
    return SlotAt(frame.at, stack) +
           (stack.frames.frames() - 1 - frame.age) * stack.frames.frame_bytes();
  }
  // Copies the stacks of field `field` to `to`, one after the other. `frames` has frames_per_row()
  // locations for each row.
  void Gather(int field, absl::Span<const FrameLocation> frames, std::byte* to) const;

  // The steps of a push, in this order.
  //
  // Finds the rows that will need slots when the rows before `begin` are evicted and `data`,
  // without its first `skipped` rows, is appended. Changes no stored data.
  void Plan(const SegmentBatch& data, int64_t skipped, int64_t begin);
  int64_t slots_planned() const {
    return static_cast<int64_t>(cut_rows_.size() + whole_rows_.size());
  }
  // Gives slots to the rows from `id` on that need frames of rows before `id`, for which the plan
  // was made. Must be called before the rows before `id` are evicted.
  void CutBefore(int64_t id);
  // Gives back the slots of all rows. Must be called before all rows are evicted; it needs no plan.
  void CutAll();
  // Must be called after all rows were dropped, with the id of the next row.
  void StartAt(int64_t id) { kept_begin_ = id; }
  // Fills in the newest frames of the rows that were just appended, from their whole stacks in
  // `from`.
  void Append(const ColumnsView& from);
  // Sets `previous` of the segment's first row, and fills in the stacks of its final observation.
  void LinkSegment(int64_t first_id, const LinkedRows::Linked& linked, const ColumnsView& final_obs,
                   int64_t final_row);
  // Fills the slots that were planned for rows of the push. Row 0 of `rows` has the id `first_id`;
  // if it was skipped, this is the id that it would have had.
  void KeepOlderFrames(const ColumnsView& rows, int64_t first_id);

  // For saving and loading.
  //
  // The first id, not before `id`, from which on no row needs a frame of a row before `id`.
  int64_t FirstWhole(int64_t id) const;
  // The address of a whole stack in a side slot: its frames one after the other, the oldest first.
  std::byte* SlotAt(const RowLocation& slot, const RowLayout::Stack& stack) const {
    return const_cast<std::byte*>(slot.at) + stack.side_offset;
  }
  // Adopts the column `previous` that was loaded into the rows. Its slots are numbered from 0 on;
  // they are renumbered from `first_slot` on. Returns the number of all slots, also those below
  // `first_slot`. kInvalidArgument: a value leads nowhere.
  absl::StatusOr<int32_t> AdoptPrevious(int32_t first_slot);

 private:
  bool SegmentGoesOn(const SegmentBatch& data, int segment, const Segment& kept, int64_t begin);
  bool GoesOn(const ColumnsView& rows, int64_t before, int64_t row) const;
  bool GoesOnAfter(int64_t id, const ColumnsView& rows, int64_t row);
  void GiveSlot(int64_t id);

  LinkedRows* const rows_;
  int frames_per_row_ = 0;
  // Evicted rows from this id on may still be predecessors of valid rows, and still have their
  // slots.
  int64_t kept_begin_ = 0;

  // The plan of a push; these are members so that their memory is used again.
  std::vector<int64_t> cut_rows_;    // ids of valid rows whose predecessors are evicted
  std::vector<int64_t> whole_rows_;  // rows of the push with stacks of their own
  absl::flat_hash_map<int64_t, int> segments_of_push_;  // the newest of each stream
  std::vector<FrameLocation> frames_;                   // of one row
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_FRAME_STORE_H_
