// The frames of stacked observations (FieldSpec::frame_stack_axis) of linked rows, each stored once.
// A row holds the newest frame of its stack; the older ones are those of the rows before it in its
// stream:
//
//     rows of a stream      r4      r5      r6      r7          stack of r7: frames 4 5 6 7
//     newest frame          [4]     [5]     [6]     [7]
//     previous               |  ◄── 1   ◄── 1   ◄── 1
//                            └► side slot [1 2 3 .]
//
// `previous` is the number of rows back to the predecessor. A row whose stack is not that of its
// predecessor shifted by one frame has ~slot instead, and its older frames lie in that side slot: the
// first row of an episode, a row after lost steps, or whatever the env makes up. So every stack comes
// back byte for byte; only what it costs depends on the data. An observation after a row that lies in
// a slot has its whole stack there.
//
// Evicted rows keep their frames until their block is released. Before that, each valid row whose
// predecessor goes gets a slot of its own.
//
// Without stacks only frames_per_row() and StartAt() may be called.
//
// Ownership: the rows are the owner's and outlive it.
// Threads:   none of its own: the owner's lock is held for every call, except for Gather() of rows
//            that are pinned.
#ifndef DING_WORKER_REPLAY_BUFFER_FRAME_STORE_H_
#define DING_WORKER_REPLAY_BUFFER_FRAME_STORE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/linked_rows.h"
#include "ding_worker/replay_buffer/row_layout.h"
#include "ding_worker/replay_buffer/row_memory.h"

namespace ding {

// Where a frame of the stacks of a row lies, for all fields that are stacks.
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

  // The most frames of a stack; 0 if no field is one.
  int frames_per_row() const { return frames_per_row_; }
  // Where the frames of a row, or of the observation after one, lie: the newest first, as many as
  // `frames` has room for, at most frames_per_row().
  void Locate(int64_t id, absl::Span<FrameLocation> frames) const;
  void Locate(const RowSuccessor& next, absl::Span<FrameLocation> frames) const;
  // The frame of one field. frames_per_row() may be more than that field has.
  const std::byte* At(const FrameLocation& frame, const RowLayout::Stack& stack) const {
    if (frame.age == FrameLocation::kNewestOfRow) return rows_->ring().At(frame.at, stack.field);
    return SlotAt(frame.at, stack) +
           (stack.frames.frames() - 1 - frame.age) * stack.frames.frame_bytes();
  }
  // Copies the stacks of field `field` to `to`, one after the other, from frames_per_row() locations
  // a row.
  void Gather(int field, absl::Span<const FrameLocation> frames, std::byte* to) const;

  // The steps of a push, in this order.
  //
  // Finds out which rows need slots when `data` without its first `skipped` rows is appended to what
  // is left from row `begin` on. Changes nothing that is stored.
  void Plan(const SegmentBatch& data, int64_t skipped, int64_t begin);
  int64_t slots_planned() const {
    return static_cast<int64_t>(cut_rows_.size() + whole_rows_.size());
  }
  // Gives slots to the rows from `id` on that need frames of rows before it, as planned for `id`.
  // Called before those are evicted.
  void CutBefore(int64_t id);
  // Gives back the slots of all rows. Called before all of them are evicted, instead of a plan.
  void CutAll();
  // All rows were dropped; the next one gets `id`.
  void StartAt(int64_t id) { kept_begin_ = id; }
  // Fills the frames of the rows that were appended last, from their whole stacks.
  void Append(const ColumnsView& from);
  void LinkSegment(int64_t first_id, const LinkedRows::Linked& linked, const ColumnsView& final_obs,
                   int64_t final_row);
  // Fills the slots planned for rows of the push. Row 0 of `rows` has the id `first_id`, or would have
  // it if it was skipped.
  void KeepOlderFrames(const ColumnsView& rows, int64_t first_id);

  // For saving and loading.
  //
  // A whole stack of a slot, frame after frame, the oldest first.
  std::byte* SlotAt(const RowLocation& slot, const RowLayout::Stack& stack) const {
    return const_cast<std::byte*>(slot.block) + stack.side_offset + slot.row * stack.bytes;
  }
  // Takes over numbers `previous` that were written into the ring from elsewhere, whose slots are
  // numbered from 0 on. They become those from `first_slot` on. Returns the number of all slots.
  // kInvalidArgument: one leads nowhere.
  absl::StatusOr<int32_t> AdoptPrevious(int32_t first_slot);

 private:
  bool SegmentGoesOn(const SegmentBatch& data, int segment, const Segment& kept, int64_t begin);
  bool GoesOn(const ColumnsView& rows, int64_t before, int64_t row) const;
  bool GoesOnAfter(int64_t id, const ColumnsView& rows, int64_t row);
  void GiveSlot(int64_t id);

  LinkedRows* const rows_;
  int frames_per_row_ = 0;
  // Evicted rows from here on may still be predecessors of valid ones, and have slots.
  int64_t kept_begin_ = 0;

  // The plan of a push. Kept for its memory.
  std::vector<int64_t> cut_rows_;    // ids of valid rows whose predecessors go
  std::vector<int64_t> whole_rows_;  // rows of the push that do not go on with a predecessor
  absl::flat_hash_map<int64_t, int> segments_of_push_;  // the newest of each stream
  std::vector<FrameLocation> frames_;                   // of one row
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_FRAME_STORE_H_
