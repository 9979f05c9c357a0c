// The rows of a RowStore by id: a ring of blocks whose oldest rows are evicted first. Each row has
// a link to what followed it in its stream.
//
//     begin_id                                                end_id
//        │   block 7             block 8             block 9     │
//        ▼   rows    [ . . . . ] [ . . . . ]         [ . . .     ▼
//            link    [ 0 1 0 0 ] [ 0 | | 0 ]         [ 0 0 0
//            previous[ . . . . ] [ . | | . ]         [ . . .       FrameStore; with stacks only
//                                    | |
//                        side slots  [ . . . ]  the observation after the last row of an episode,
//                                    or
//                                               after the newest row of a stream
//
// Rows are numbered by a 64-bit id in the order of arrival, and an id is never used again. The row
// with a given id lies in block (id / rows per block). A block is one allocation (RowLayout). Of an
// observation field that stacks frames, a row has a single frame, which FrameStore fills.
//
// A link leads to the row's successor: the next row of its stream, if that row's step is one more.
// Streams interleave, so the link is the number of rows between the two; the links of a run of
// consecutive rows are zeros. The link of a row without a successor leads to a side slot, which
// holds the observation after the row. The slot is given back when the successor arrives or the row
// is evicted. A stream is open while its episode goes on after its newest row.
//
// Ownership: owns the rows and their memory.
// Memory:    a side slot and 8 bytes for each row without a successor, and about 50 bytes for each
//            open stream.
// Threads:   the caller holds the owner's lock for every call, except for spec(), obs_fields(),
//            layout(), IsStack() and At() of pinned rows.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_LINKED_ROWS_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_LINKED_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_files.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"

namespace ding {

// The encoding of a link: the number of rows between a row and its successor, or if it has none,
// ~(slot << 2 | SegmentEnd).
struct RowLink {
  static int32_t ToSlot(int32_t slot, SegmentEnd end) {
    return ~(slot << kEndBits | static_cast<int32_t>(end));
  }
  static bool LeadsToSlot(int32_t link) { return link < 0; }
  static int32_t Slot(int32_t link) { return ~link >> kEndBits; }
  static SegmentEnd End(int32_t link) { return static_cast<SegmentEnd>(~link & kEndMask); }

 private:
  static constexpr int kEndBits = 2;
  static constexpr int32_t kEndMask = (1 << kEndBits) - 1;
};

// The row that follows another in its stream, or the end of its segment.
struct RowSuccessor {
  int64_t id;       // -1: no row (yet)
  SegmentEnd end;   // why no row follows, if none does
  RowLocation obs;  // the observation after the row, wherever it lies
};

// An open stream, and the step that its next row will have.
struct OpenStream {
  int64_t stream;
  int64_t next_step;
};

// Returns the part of a segment that is left when the first `skipped` rows of its push are dropped.
// Its length is below 1 if nothing is left.
inline Segment WithoutFirstRows(Segment segment, int64_t skipped) {
  const int64_t missing = std::max<int64_t>(0, skipped - segment.begin);
  segment.begin += missing;
  segment.first_step += missing;
  segment.length -= missing;
  return segment;
}

// Finds rows and what follows them. A copy is valid as long as the LinkedRows; a loop over many
// rows copies it, because the compiler then knows that nothing in the loop changes it.
class RowFinder {
 public:
  RowLocation Locate(int64_t id) const { return {BlockAt(id) + (id & row_mask_) * row_bytes_}; }
  int32_t LinkOf(int64_t id) const { return *NumberOf(id, links_offset_); }
  RowSuccessor Next(int64_t id) const {
    const int32_t link = LinkOf(id);
    if (!RowLink::LeadsToSlot(link)) {
      return {id + link + 1, SegmentEnd::kCut, Locate(id + link + 1)};
    }
    return {-1, RowLink::End(link), memory_->LocateSlot(RowLink::Slot(link))};
  }

 private:
  friend class LinkedRows;
  RowFinder(const RowLayout& layout, const RowMemory* memory, const RowMemory::Block* blocks,
            int64_t place_mask)
      : blocks_(blocks),
        block_shift_(layout.block_shift),
        place_mask_(place_mask),
        row_mask_((int64_t{1} << layout.block_shift) - 1),
        row_bytes_(layout.row_bytes),
        links_offset_(layout.links_offset),
        memory_(memory) {}

  int64_t BlockOf(int64_t id) const { return id >> block_shift_; }
  // The place in the table of blocks of the block that holds row `id`.
  int64_t PlaceOf(int64_t id) const { return BlockOf(id) & place_mask_; }
  std::byte* BlockAt(int64_t id) const { return blocks_[PlaceOf(id)].get(); }
  int32_t* NumberOf(int64_t id, int64_t offset) const {
    return reinterpret_cast<int32_t*>(BlockAt(id) + offset) + (id & row_mask_);
  }

  const RowMemory::Block* blocks_;
  int block_shift_;
  int64_t place_mask_;
  int64_t row_mask_;
  int64_t row_bytes_;
  int64_t links_offset_;
  const RowMemory* memory_;
};

class LinkedRows {
 public:
  // The first `obs_fields` fields of `rows` are the observation. The first row's id is 0. `files`
  // is null without a disk tier.
  LinkedRows(SpecPtr rows, int obs_fields, int64_t capacity_rows,
             std::shared_ptr<RowFiles> files = nullptr);

  LinkedRows(const LinkedRows&) = delete;
  LinkedRows& operator=(const LinkedRows&) = delete;

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

  const RowFinder& finder() const { return finder_; }
  RowLocation Locate(int64_t id) const { return finder_.Locate(id); }
  // The address of field `field` of a row, or of a side slot if the field is an observation field
  // that is not a stack.
  const std::byte* At(const RowLocation& location, int field) const {
    return location.at + layout_.offsets[field];
  }
  std::byte* MutableAt(const RowLocation& location, int field) {
    return const_cast<std::byte*>(At(location, field));
  }
  // The values of a row in the columns `link` and `previous`, and where they lie.
  int32_t LinkOf(int64_t id) const { return finder_.LinkOf(id); }
  int32_t PreviousOf(int64_t id) const { return *finder_.NumberOf(id, layout_.previous_offset); }
  const int32_t* LinksAt(int64_t id) const { return finder_.NumberOf(id, layout_.links_offset); }
  int32_t* MutableLinksAt(int64_t id) { return finder_.NumberOf(id, layout_.links_offset); }
  int32_t* MutablePreviousAt(int64_t id) { return finder_.NumberOf(id, layout_.previous_offset); }

  // Whether evicting the rows before `id` releases a block.
  bool ReleasesBlocks(int64_t id) const { return finder_.BlockOf(id) > first_block_; }
  // Calls f(first id, rows) for each block's part of [begin, end), in pieces of at most `most` rows.
  template <typename F>
  void ForEachPiece(int64_t begin, int64_t end, F f, int64_t most = kMaxCapacityRows) const {
    while (begin < end) {
      const int64_t block_end = (finder_.BlockOf(begin) + 1) << layout_.block_shift;
      const int64_t piece_end = std::min({end, block_end, begin + most});
      f(begin, piece_end - begin);
      begin = piece_end;
    }
  }

  RowMemory& memory() { return memory_; }
  const RowMemory& memory() const { return memory_; }

  RowSuccessor Next(int64_t id) const { return finder_.Next(id); }

  // The number of open streams.
  int64_t open_streams() const { return static_cast<int64_t>(tails_.size()); }
  // The newest row of an open stream, and the step that its next row will have. TailOf() returns
  // null for a stream that is not open.
  struct Tail {
    int64_t row;
    int64_t next_step;
  };
  const Tail* TailOf(int64_t stream) const {
    const auto tail = tails_.find(stream);
    return tail == tails_.end() ? nullptr : &tail->second;
  }

  // The steps of a push, in this order. Only Reserve() can fail, before anything has changed.
  //
  // Allocates what Append() of `rows` rows at `first_id` needs beyond what EvictBefore() releases,
  // and `slots` side slots. kResourceExhausted: out of memory.
  absl::Status Reserve(int64_t first_id, int64_t rows, int64_t slots);
  void EvictBefore(int64_t id);
  // Drops all rows. The next row gets `id`, which is not below end_id().
  void StartAt(int64_t id);
  // Adds rows with the columns of `from` that are not stacks, and links each to the next one.
  // LinkSegment() then corrects the links at the ends of each segment.
  void Append(const ColumnsView& from);
  // Links the segment's predecessor to its first row, which has the id `first_id`, and its last row
  // to the observation `final_row` of `final_obs`.
  struct Linked {
    int64_t predecessor;    // of the segment's first row; -1: none
    RowLocation final_obs;  // the caller fills in its stacks
  };
  Linked LinkSegment(const Segment& segment, int64_t first_id, const ColumnsView& final_obs,
                     int64_t final_row);

  // For saving and loading.
  //
  // Adds `rows` rows, for which Reserve() has allocated blocks. The caller then fills their columns
  // and links.
  void AppendUnfilled(int64_t rows);
  // The block of row `id`, and the number of its first row.
  const std::byte* BlockOf(int64_t id) const { return finder_.BlockAt(id); }
  int64_t rows_per_block() const { return int64_t{1} << layout_.block_shift; }
  // The number of rows with side slots in the block of row `id`.
  int64_t SlotsInBlockOf(int64_t id) const { return slots_at_[finder_.PlaceOf(id)]; }
  // The open stream whose newest row is `id`, if there is one. The link of the row leads to a slot.
  std::optional<OpenStream> OpenStreamOf(int64_t id) const;
  // Adopts links that were loaded into the rows; they number their slots from 0 on. Returns the
  // number of slots. kInvalidArgument: a link leads nowhere.
  absl::StatusOr<int32_t> AdoptLinks();
  // Takes the slots 0 ... count - 1, none of which were taken before.
  absl::Status TakeFirstSlots(int32_t count);
  // Makes row `id` the newest row of an open stream. Returns false if the row cannot be the newest
  // one of that stream.
  bool AdoptOpenStream(int64_t id, const OpenStream& stream);

 private:
  void ReleaseBlocksBefore(int64_t block);
  void ForgetTail(int32_t link, int64_t row);
  void KeepFinalObs(const ColumnsView& final_obs, int64_t final_row, const RowLocation& slot);

  const SpecPtr spec_;
  const int obs_fields_;
  const int64_t capacity_rows_;
  const RowLayout layout_;

  int64_t begin_ = 0;
  int64_t end_ = 0;
  // Blocks [first_block_, end_block_), each at its number modulo the size of the table.
  std::vector<RowMemory::Block> blocks_;
  int64_t first_block_ = 0;
  int64_t end_block_ = 0;
  RowMemory memory_;
  const RowFinder finder_;

  // How many valid rows of a block have side slots, by place: eviction ends its search after those.
  std::vector<int64_t> slots_at_;
  std::vector<int64_t> stream_of_slot_;       // the stream of the row that has the slot
  absl::flat_hash_map<int64_t, Tail> tails_;  // by stream
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_LINKED_ROWS_H_
