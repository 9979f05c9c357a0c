// The memory of all replay buffers: rows of segments in columns, oldest rows evicted first, one
// copy of each observation. Its parts have one job each:
//
//     RowStore ─┬─ LinkedRows ── RowRing ── RowMemory
//               │   what followed  rows in    blocks and side slots,
//               │   each row       columns    held back by pins
//               └─ FrameStore      the frames of stacked observations
//     saved and loaded by row_store_state
//
// Rows are numbered by a 64-bit id in the order of arrival, and a number is never used again. The
// observation after a row is that of its successor, the next row of its stream; where there is none
// (yet) it lies in a side slot. Whether it lies here or there makes no difference to a reader.
//
// Committed rows never change. So a reader finds the places of its rows under the owner's lock, takes
// a RowPin, and copies after releasing the lock.
//
// Memory: columns (one frame of a stack) + 4 bytes per row, 8 with stacks; for each side slot an
//         observation with whole stacks and 8 bytes; for each stream that goes on about 50 bytes;
//         two spare blocks. Blocks are allocated when rows arrive. Side slots: one for each episode
//         end and stream that goes on; with stacks also one for each row whose stack is not that of
//         its predecessor shifted by one frame.
// Threads: none of its own: the owner's lock is held for every call, except for the const functions
//          marked "without the lock".
#ifndef DING_WORKER_REPLAY_BUFFER_ROW_STORE_H_
#define DING_WORKER_REPLAY_BUFFER_ROW_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/frame_store.h"
#include "ding_worker/replay_buffer/linked_rows.h"
#include "ding_worker/replay_buffer/row_layout.h"
#include "ding_worker/replay_buffer/row_memory.h"

namespace ding {

class RowStore {
 public:
  using Successor = RowSuccessor;

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
  int64_t begin_id() const { return rows_.ring().begin_id(); }
  int64_t end_id() const { return rows_.ring().end_id(); }
  int64_t size() const { return rows_.ring().size(); }
  int64_t capacity_rows() const { return rows_.ring().capacity_rows(); }

  RowLocation Locate(int64_t id) const { return rows_.ring().Locate(id); }
  // What follows a row.
  Successor Next(int64_t id) const { return rows_.Next(id); }

  // The most frames of a stack; 0 if no field is one.
  int frames_per_row() const { return frames_.frames_per_row(); }
  // Where the frames of a row, or of the observation after one, lie: the newest first, as many as
  // `frames` has room for, at most frames_per_row().
  void LocateFrames(int64_t id, absl::Span<FrameLocation> frames) const {
    frames_.Locate(id, frames);
  }
  void LocateFrames(const Successor& next, absl::Span<FrameLocation> frames) const {
    frames_.Locate(next, frames);
  }

  // Must not outlive the store.
  RowPin Pin() { return rows_.ring().memory().Pin(); }

  // Without the lock.
  const SpecPtr& spec() const { return rows_.ring().spec(); }
  int obs_fields() const { return rows_.ring().obs_fields(); }
  // Whether field `field` is stored by frames.
  bool IsStack(int field) const { return rows_.ring().IsStack(field); }
  // Row `location` of field `field`, of a stack the newest frame; for the observation after a row:
  // observation fields that are no stacks only.
  const std::byte* At(const RowLocation& location, int field) const {
    return rows_.ring().At(location, field);
  }
  // Copies field `field` of rows that are pinned to `to`, one after the other: a field that is no
  // stack,
  void Gather(int field, absl::Span<const RowLocation> rows, std::byte* to) const;
  // or one that is, frames_per_row() locations a row.
  void GatherStacks(int field, absl::Span<const FrameLocation> frames, std::byte* to) const {
    frames_.Gather(field, frames, to);
  }

  // Valid rows, links and final observations; the same rows in the same order give the same bytes.
  // The snapshot holds a pin, so it must not outlive the store.
  StateSnapshot Snapshot();
  // A new store with the saved rows and ids. kInvalidArgument, with found and expected, for
  // anything that a snapshot of a store of this capacity cannot have written.
  static absl::StatusOr<std::unique_ptr<RowStore>> Load(StateReader* reader,
                                                        const RowCapacity& capacity);

  // Streams whose newest row waits for a successor.
  int64_t open_streams() const { return rows_.open_streams(); }
  // Bytes allocated for rows, links and final observations, spare blocks included.
  int64_t allocated_bytes() const { return rows_.ring().memory().allocated_bytes(); }

 private:
  RowStore(SpecPtr rows, int obs_fields, int64_t capacity_rows)
      : rows_(std::move(rows), obs_fields, capacity_rows), frames_(&rows_) {}

  LinkedRows rows_;
  FrameStore frames_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ROW_STORE_H_
