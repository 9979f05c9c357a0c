// The rows of a RowRing, each with a link to what followed it in its stream:
//
//     obs     [ . . . . ] [ . . . . ]         side slots   [ . . . ]
//     link    [ 0 1 0 0 ] [ 0 | | 0 ]                        ^ ^
//                             | +----------------------------+ |  the observation after the last row
//                             +--------------------------------+  of an episode, or after the newest
//                                                                 row of a stream
//
// A link leads to the row's successor: the next row of its stream, if that row's step is one more.
// Streams interleave, so the link is the number of rows between the two; the links of a run of
// consecutive rows are zeros. The link of a row without a successor leads to a side slot, which
// holds the observation after the row. The slot is given back when the successor arrives or the row
// is evicted. A stream is open while its episode goes on after its newest row.
//
// Memory:  a side slot and 8 bytes for each row without a successor, and about 50 bytes for each
//          open stream.
// Threads: as RowRing.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_LINKED_ROWS_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_LINKED_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/storage/row_ring.h"

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

class LinkedRows {
 public:
  // See RowRing.
  LinkedRows(SpecPtr rows, int obs_fields, int64_t capacity_rows)
      : ring_(std::move(rows), obs_fields, capacity_rows),
        slots_at_(static_cast<size_t>(ring_.places())) {}

  RowRing& ring() { return ring_; }
  const RowRing& ring() const { return ring_; }

  RowSuccessor Next(int64_t id) const {
    const int32_t link = ring_.LinkOf(id);
    if (!RowLink::LeadsToSlot(link)) {
      return {id + link + 1, SegmentEnd::kCut, ring_.Locate(id + link + 1)};
    }
    return {-1, RowLink::End(link), ring_.memory().LocateSlot(RowLink::Slot(link))};
  }

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
  // Adds rows with the columns of `from` and links each to the next one. LinkSegment() then
  // corrects the links at the ends of each segment.
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
  // The number of rows with side slots in the block of row `id`.
  int64_t SlotsInBlockOf(int64_t id) const { return slots_at_[ring_.PlaceOf(id)]; }
  // The open stream whose newest row is `id`, if there is one. The link of the row leads to a slot.
  std::optional<OpenStream> OpenStreamOf(int64_t id) const;
  // Adopts links that were loaded into the ring; they number their slots from 0 on. Returns the
  // number of slots. kInvalidArgument: a link leads nowhere.
  absl::StatusOr<int32_t> AdoptLinks();
  // Takes the slots 0 ... count - 1, none of which were taken before.
  absl::Status TakeFirstSlots(int32_t count);
  // Makes row `id` the newest row of an open stream. Returns false if it cannot be that.
  bool AdoptOpenStream(int64_t id, const OpenStream& stream);

 private:
  void ForgetTail(int32_t link, int64_t row);
  void KeepFinalObs(const ColumnsView& final_obs, int64_t final_row, const RowLocation& slot);

  RowRing ring_;
  // How many valid rows of a block have side slots, by place: eviction ends its search after those.
  std::vector<int64_t> slots_at_;
  std::vector<int64_t> stream_of_slot_;       // the stream of the row that has the slot
  absl::flat_hash_map<int64_t, Tail> tails_;  // by stream
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_LINKED_ROWS_H_
