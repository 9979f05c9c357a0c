// The rows of a RowRing, each with a link to what followed it in its stream:
//
//     obs     [ . . . . ] [ . . . . ]         side slots   [ . . . ]
//     link    [ 0 1 0 0 ] [ 0 | | 0 ]                        ^ ^
//                             | +----------------------------+ |  the observation after the last row
//                             +--------------------------------+  of an episode, or after the newest
//                                                                 row of a stream
//
// A link leads to the row's successor, which is the next row of its stream if its step is one more.
// Streams interleave, so the link is the number of rows between the two, and the links of a run of
// rows are zeros. A row without a successor has a link to a side slot with the observation after it.
// The slot is given back when the successor arrives, or when the row is evicted.
//
// Memory:  for each row without a successor a side slot and 8 bytes; for each stream that goes on
//          about 50 bytes.
// Threads: those of RowRing.
#ifndef DING_WORKER_REPLAY_BUFFER_LINKED_ROWS_H_
#define DING_WORKER_REPLAY_BUFFER_LINKED_ROWS_H_

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
#include "ding_worker/replay_buffer/row_memory.h"
#include "ding_worker/replay_buffer/row_ring.h"

namespace ding {

// What a link says: the number of rows between a row and its successor, or ~(slot << 2 | SegmentEnd).
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

// What follows a row.
struct RowSuccessor {
  int64_t id;       // -1: no row (yet)
  SegmentEnd end;   // if there is none: why
  RowLocation obs;  // the observation after the row, wherever it lies
};

// A stream whose episode goes on after its newest row.
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

  // Streams whose newest row waits for a successor.
  int64_t open_streams() const { return static_cast<int64_t>(tails_.size()); }
  // The newest row of a stream that goes on, and its next step; null if there is none.
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
  // Adds rows with the columns of `from`, each the successor of the one before. To be corrected by
  // LinkSegment() for each segment.
  void Append(const ColumnsView& from);
  // Links the row before a segment to it, and its last row to the observation `final_row` of
  // `final_obs`. `first_id` is the id of the segment's first row.
  struct Linked {
    int64_t predecessor;    // of the segment's first row; -1: none
    RowLocation final_obs;  // the fields that are stacks are to be filled
  };
  Linked LinkSegment(const Segment& segment, int64_t first_id, const ColumnsView& final_obs,
                     int64_t final_row);

  // For saving and loading.
  //
  // Rows with side slots in the block of row `id`.
  int64_t SlotsInBlockOf(int64_t id) const { return slots_at_[ring_.PlaceOf(id)]; }
  // The stream that waits for a successor of row `id`, whose link leads to a slot.
  std::optional<OpenStream> OpenStreamOf(int64_t id) const;
  // Takes over links that were written into the ring from elsewhere, whose slots are numbered from 0
  // on. Returns the number of slots. kInvalidArgument: a link leads nowhere.
  absl::StatusOr<int32_t> AdoptLinks();
  // Takes the slots 0 ... count - 1, none of which were taken before.
  absl::Status TakeFirstSlots(int32_t count);
  // Row `id` is the newest of a stream. False if it cannot be.
  bool AdoptOpenStream(int64_t id, const OpenStream& stream);

 private:
  void ForgetTail(int32_t link, int64_t row);
  void KeepFinalObs(const ColumnsView& final_obs, int64_t final_row, const RowLocation& slot);

  RowRing ring_;
  std::vector<int64_t> slots_at_;        // of the valid rows of a block; spares eviction its search
  std::vector<int64_t> stream_of_slot_;  // the stream of the row that has the slot
  absl::flat_hash_map<int64_t, Tail> tails_;  // by stream
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_LINKED_ROWS_H_
