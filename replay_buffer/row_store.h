// The memory of all replay buffers: rows of segments in columns, oldest rows evicted first, one
// copy of each observation.
//
//     block 7             block 8             side block
//     obs     [ . . . . ] [ . . . . ]         obs [ . . . ]
//     action  [ . . . . ] [ . . . . ]               ^ ^
//     reward  [ . . . . ] [ . . . . ]               | |  what followed the last row of an episode
//     link    [ 0 1 0 0 ] [ 0 | | 0 ]               | |  or the newest row of a stream
//                             | +-------------------+-+
//                             +---------------------+
//
// Rows are numbered by a 64-bit id in the order of arrival, never again by the same. Row id lies in
// block id / block_rows. A row's link leads to its successor in its stream (by the number of rows
// between: streams interleave) or, when there is none yet or ever, to a slot with the observation
// after it. When the successor arrives, the slot is used again; when a row is evicted, so is its
// slot.
//
// A block is one aligned allocation. A side block is a block with the observation columns only, at
// the same offsets: whether the observation after a row lies here or there makes no difference to
// whoever copies it.
//
// Of an observation field that stacks frames (FieldSpec::frame_stack_axis) a row holds the newest
// one; the older ones are those of the rows before it in its stream:
//
//     rows of a stream      r4      r5      r6      r7          stack of r7: frames 4 5 6 7
//     newest frame          [4]     [5]     [6]     [7]
//     previous               |  ◄── 1   ◄── 1   ◄── 1
//                            └► side slot [1 2 3 .]
//
// A row whose stack is not that of its predecessor shifted by one frame has a side slot with its
// older frames instead of a predecessor: the first row of an episode or after lost steps, or
// whatever the env makes up. So every stack comes back byte for byte; only what it costs depends on
// the data. Before a block goes back, all valid rows with evicted predecessors get side slots too.
//
// Committed rows never change, so a reader finds the places of its rows under the owner's lock,
// takes a RowPin, and copies after releasing the lock. What is evicted meanwhile is used again only
// when the readers from before the eviction are gone; a reader that stays long makes the store
// allocate more.
//
// Memory: columns (one frame of a stack) + 4 bytes per row, 8 with stacks; for each side slot an
//         observation with whole stacks and 8 bytes; for each stream that goes on about 50 bytes;
//         two spare blocks. Blocks are allocated when rows arrive. Side slots: one for each episode
//         end and stream that goes on; with stacks also one for each row as above.
// Threads: none of its own: the owner's lock is held for every call, except for the const functions
//          marked "without the lock".
#ifndef DING_WORKER_REPLAY_BUFFER_ROW_STORE_H_
#define DING_WORKER_REPLAY_BUFFER_ROW_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/row_layout.h"

namespace ding {

// Where a row's columns lie; holds while pinned.
struct RowLocation {
  const std::byte* block;
  int64_t row;
};

// Where a frame of the stacks of a row lies, for all fields that are stacks.
struct FrameLocation {
  static constexpr int kNewestOfRow = -1;

  RowLocation at;
  int age;  // kNewestOfRow: `at` is a row; else that of a frame of a side slot, 0 being the newest
};

// Keeps what was in the store when it was taken from being overwritten. May be released on any
// thread; must not outlive the store.
class RowPin {
 public:
  RowPin() = default;
  explicit RowPin(std::atomic<int64_t>* readers) : readers_(readers) {
    readers_->fetch_add(1, std::memory_order_relaxed);
  }
  RowPin(RowPin&& other) noexcept : readers_(std::exchange(other.readers_, nullptr)) {}
  RowPin& operator=(RowPin&& other) noexcept {
    std::swap(readers_, other.readers_);
    return *this;
  }
  ~RowPin() {
    if (readers_ != nullptr) readers_->fetch_sub(1, std::memory_order_release);
  }

 private:
  std::atomic<int64_t>* readers_ = nullptr;
};

class RowStore {
 public:
  // Rows of `rows`, whose first `obs_fields` fields are the observation. The first row's id is 0.
  // Errors of RowsOfCapacity().
  static absl::StatusOr<std::unique_ptr<RowStore>> Create(SpecPtr rows, int obs_fields,
                                                          const RowCapacity& capacity);

  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // Appends all rows, evicting the oldest. `data` has passed ValidateSegments() and CheckLayout().
  //   kResourceExhausted  out of memory; nothing was appended or evicted
  absl::Status Append(const SegmentBatch& data);

  // InvalidArgument if the rows or final observations have other fields than the store's, naming
  // the field.
  absl::Status CheckLayout(const SegmentBatch& data, absl::string_view where) const;

  // Forgets all rows. Ids go on.
  void Clear();

  // Valid ids are [begin_id, end_id).
  int64_t begin_id() const { return begin_; }
  int64_t end_id() const { return end_; }
  int64_t size() const { return end_ - begin_; }
  int64_t capacity_rows() const { return capacity_rows_; }

  RowLocation Locate(int64_t id) const {
    return {blocks_[(id >> block_shift_) & block_mask_].get(), id & row_mask_};
  }

  // What follows a row.
  struct Successor {
    int64_t id;       // -1: no row (yet)
    SegmentEnd end;   // if there is none: why
    RowLocation obs;  // the observation after the row, wherever it lies
  };
  Successor Next(int64_t id) const {
    const int32_t link = LinkOf(id);
    if (link >= 0) return {id + link + 1, SegmentEnd::kCut, Locate(id + link + 1)};
    const int32_t code = ~link;
    return {-1, static_cast<SegmentEnd>(code & kEndMask), LocateSlot(code >> kEndBits)};
  }

  // Most frames of a stack; 0 if no field is one.
  int frames_per_row() const { return frames_per_row_; }
  // Where the frames of a row, or of the observation after one, lie: the newest first, as many as
  // `frames` has room for, at most frames_per_row().
  void LocateFrames(int64_t id, absl::Span<FrameLocation> frames) const;
  void LocateFrames(const Successor& next, absl::Span<FrameLocation> frames) const;

  RowPin Pin();

  // Without the lock.
  const SpecPtr& spec() const { return spec_; }
  int obs_fields() const { return obs_fields_; }
  // Whether field `field` is stored by frames.
  bool IsStack(int field) const { return layout_.stored_bytes[field] != spec_->row_bytes(field); }
  // Row `location` of field `field`, of a stack the newest frame; for the observation after a row:
  // observation fields that are no stacks only.
  const std::byte* At(const RowLocation& location, int field) const {
    return location.block + layout_.offsets[field] + location.row * layout_.stored_bytes[field];
  }
  // Copies field `field` of rows that are pinned to `to`, one after the other: a field that is no
  // stack,
  void Gather(int field, absl::Span<const RowLocation> rows, std::byte* to) const;
  // or one that is, frames_per_row() locations a row.
  void GatherStacks(int field, absl::Span<const FrameLocation> frames, std::byte* to) const;

  // Valid rows, links and final observations; the same rows in the same order give the same bytes.
  // What the snapshot writes it holds by a pin, so it must not outlive the store.
  StateSnapshot Snapshot();
  // A new store with the saved rows and ids. kInvalidArgument, with found and expected, for
  // anything that a snapshot of a store of this capacity cannot have written.
  static absl::StatusOr<std::unique_ptr<RowStore>> Load(StateReader* reader,
                                                        const RowCapacity& capacity);

  // Streams whose newest row waits for a successor.
  int64_t open_streams() const { return static_cast<int64_t>(open_tails_.size()); }
  // Bytes allocated for rows, links and final observations, spare blocks included.
  int64_t allocated_bytes() const;

 private:
  using Memory = std::shared_ptr<std::byte>;

  // A link is the number of rows up to the successor, or ~(slot << kEndBits | SegmentEnd). So the
  // links of a run of rows are zeros.
  static constexpr int kEndBits = 2;
  static constexpr int32_t kEndMask = (1 << kEndBits) - 1;

  // The newest row of a stream whose episode goes on.
  struct OpenTail {
    int64_t row;
    int64_t next_step;
  };

  // What was retired while these readers (or earlier ones) could see it.
  struct Epoch {
    std::atomic<int64_t> readers{0};
    std::vector<Memory> blocks;
    std::vector<int32_t> slots;
  };

  RowStore(SpecPtr rows, int obs_fields, int64_t capacity_rows);

  int32_t& LinkOf(int64_t id) const {
    const RowLocation at = Locate(id);
    return reinterpret_cast<int32_t*>(const_cast<std::byte*>(at.block) +
                                      layout_.links_offset)[at.row];
  }
  // With stacks: the number of rows back to the predecessor whose stack goes on with the row's, or
  // ~slot with the older frames.
  int32_t& PreviousOf(int64_t id) const {
    const RowLocation at = Locate(id);
    return reinterpret_cast<int32_t*>(const_cast<std::byte*>(at.block) +
                                      layout_.previous_offset)[at.row];
  }
  RowLocation LocateSlot(int32_t slot) const {
    return {side_blocks_[slot >> layout_.slot_shift].get(), slot & slot_mask_};
  }
  // Whole stacks of a slot, the oldest frame first; that of the frame `age` before the newest.
  std::byte* StackAt(const RowLocation& slot, const RowLayout::Stack& stack) const {
    return const_cast<std::byte*>(slot.block) + stack.side_offset + slot.row * stack.bytes;
  }
  const std::byte* FrameAt(const FrameLocation& frame, const RowLayout::Stack& stack) const {
    if (frame.age == FrameLocation::kNewestOfRow) return At(frame.at, stack.field);
    return StackAt(frame.at, stack) +
           (stack.frames.frames() - 1 - frame.age) * stack.frames.frame_bytes();
  }
  int64_t BlockOf(int64_t id) const { return id >> block_shift_; }
  // Calls f(first id, rows) for each block's part of [begin, end).
  template <typename F>
  void ForEachPiece(int64_t begin, int64_t end, F f) const;

  void PlanStacks(const SegmentBatch& data, int64_t skipped, int64_t begin);
  bool SegmentGoesOn(const SegmentBatch& data, int segment, const Segment& kept, int64_t begin);
  bool GoesOn(const ColumnsView& rows, int64_t before, int64_t row) const;
  bool GoesOnAfter(int64_t id, const ColumnsView& rows, int64_t row);
  absl::Status Reserve(int64_t first_id, int64_t rows, int64_t slots);
  absl::Status ReserveSlots(int64_t slots);
  int32_t TakeSlot();
  void EvictBefore(int64_t id);
  void CutStacksBefore(int64_t id);
  void ForgetTail(int32_t code, int64_t row);
  void ReleaseBlocksBefore(int64_t block);
  void AddBlocks(int64_t end);
  void CopyColumns(const ColumnsView& from, int64_t first_id);
  void CopyNewestFrames(const ColumnsView& from, int64_t first_id);
  void LinkSegment(const Segment& segment, int64_t first_id, const ColumnsView& final_obs,
                   int64_t final_row);
  void KeepFinalObs(const ColumnsView& final_obs, int64_t final_row, int32_t slot);
  void KeepOlderFrames(const ColumnsView& rows, int64_t row, int64_t id);
  void Reclaim();
  bool NobodyReads() const;
  void RetireBlock(Memory block);
  void RetireSlot(int32_t slot);
  void TrimSpareBlocks();

  struct SavedRows;
  void SaveLinks(SavedRows* saved, std::vector<RowLocation>* final_obs) const;
  int32_t SaveLink(int64_t id, SavedRows* saved, std::vector<RowLocation>* final_obs) const;
  void SaveColumns(SavedRows* saved) const;
  void SaveFinalObs(absl::Span<const RowLocation> final_obs, SavedRows* saved) const;
  void SaveStacks(SavedRows* saved) const;
  absl::Status LoadRows(StateReader* reader, int64_t rows);
  absl::Status CheckSavedRows(const StateReader& reader, int64_t rows) const;
  absl::Status CheckSavedSlots(const StateReader& reader, int64_t final_obs,
                               int64_t older_frames) const;
  absl::Status ReadPerRow(StateReader* reader, absl::string_view name,
                          int32_t& (RowStore::*of_row)(int64_t) const);
  absl::StatusOr<int32_t> LoadLinks(StateReader* reader);
  absl::StatusOr<int32_t> LoadPrevious(StateReader* reader, int32_t slots);
  absl::Status LoadColumns(StateReader* reader);
  absl::Status LoadFinalObs(StateReader* reader, int32_t slots);
  absl::Status LoadOlderFrames(StateReader* reader, int32_t first_slot, int32_t end_slot);
  absl::Status LoadOpenTails(StateReader* reader);

  const SpecPtr spec_;
  const int obs_fields_;
  const int64_t capacity_rows_;
  const RowLayout layout_;
  const int block_shift_;
  const int64_t row_mask_;
  const int64_t slot_mask_;
  int frames_per_row_ = 0;

  int64_t begin_ = 0;
  int64_t end_ = 0;
  // With stacks: evicted rows from here on may still be predecessors of valid ones, and have slots.
  int64_t kept_begin_ = 0;
  // Blocks [first_block_, end_block_), at their number modulo the size of the table.
  std::vector<Memory> blocks_;
  std::vector<int64_t> slots_in_block_;  // of valid rows; spares eviction most of its search
  int64_t block_mask_ = 0;
  int64_t first_block_ = 0;
  int64_t end_block_ = 0;
  std::vector<Memory> spare_blocks_;

  std::vector<Memory> side_blocks_;
  std::vector<int32_t> free_slots_;
  std::vector<int64_t> slot_stream_;  // of an open tail's slot
  absl::flat_hash_map<int64_t, OpenTail> open_tails_;

  std::deque<Epoch> epochs_;  // oldest first, never empty

  // With stacks: what a push needs slots for, beside its final observations. Kept for its memory.
  std::vector<int64_t> cut_rows_;    // ids whose predecessors go back with a block
  std::vector<int64_t> whole_rows_;  // rows of the push that do not go on with a predecessor
  absl::flat_hash_map<int64_t, int> segments_of_push_;  // newest of each stream
  std::vector<FrameLocation> frames_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ROW_STORE_H_
