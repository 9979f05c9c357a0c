// The memory of all replay buffers: it stores the rows of segments, keeps one copy of each
// observation, and evicts the oldest rows first. Its parts have one job each:
//
//     RowStore ─┬─ LinkedRows ── RowMemory
//               │   rows and      blocks and side slots,
//               │   their links   held back by pins
//               └─ FrameStore     the frames of stacked observations
//     saved and loaded by row_store_state; RowFiles keeps the rows of a disk tier
//
// Rows are numbered by a 64-bit id in the order of arrival, and an id is never used again. The
// observation after a row is the observation of its successor, the next row of its stream. While a
// row has no successor, the observation after it lies in a side slot. Readers see no difference.
//
// Committed rows never change. So a reader locates its rows under the owner's lock, takes a RowPin,
// and copies after releasing the lock.
//
// Memory:  for each row its fields (one frame of a stack) and 4 bytes, 8 with stacks; for each
//          side slot an observation with whole stacks and 8 bytes; about 50 bytes for each open
//          stream; two spare blocks. Blocks are allocated when rows arrive. There is a side slot
//          for each episode end and each open stream; with stacks also for each row whose stack is
//          not its predecessor's stack shifted by one frame.
// Threads: the caller holds the owner's lock for every call, except for the const functions marked
//          "callable without the lock".
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_STORE_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_STORE_H_

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
#include "ding_worker/replay_buffer/storage/frame_store.h"
#include "ding_worker/replay_buffer/storage/linked_rows.h"
#include "ding_worker/replay_buffer/storage/row_files.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/storage/row_store_state.h"

namespace ding {

class RowStore {
 public:
  // Creates a store for rows of the spec `rows`, whose first `obs_fields` fields are the
  // observation. The first row gets the id 0. Returns the errors of RowsOfCapacity(). With a disk
  // tier it also returns the errors of RowFiles::CheckNew() and RowFiles::CheckRoom().
  static absl::StatusOr<std::unique_ptr<RowStore>> Create(SpecPtr rows, int obs_fields,
                                                          const RowCapacity& capacity);

  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // Appends all rows, evicting the oldest. `data` has passed ValidateSegments() and CheckLayout().
  //   kResourceExhausted  out of memory, or the disk is full; nothing was appended or evicted
  //   other errors of RowFiles::New(); nothing was appended or evicted
  absl::Status Append(const SegmentBatch& data);

  // kInvalidArgument, naming the field, if the rows or final observations have other fields than
  // the store.
  absl::Status CheckLayout(const SegmentBatch& data, absl::string_view where) const;

  // Evicts the rows before `id`, which is at most end_id(). Not for rows with stacks.
  void EvictBefore(int64_t id);
  // Drops all rows. The next row gets the id that it would have got without Clear().
  void Clear();

  // Valid ids are [begin_id, end_id).
  int64_t begin_id() const { return rows_.begin_id(); }
  int64_t end_id() const { return rows_.end_id(); }
  int64_t size() const { return rows_.size(); }
  int64_t capacity_rows() const { return rows_.capacity_rows(); }

  const RowFinder& finder() const { return rows_.finder(); }
  RowLocation Locate(int64_t id) const { return rows_.Locate(id); }
  // Returns what follows a row in its stream.
  RowSuccessor Next(int64_t id) const { return rows_.Next(id); }

  // The number of frames of the longest stack; 0 if no field is a stack.
  int frames_per_row() const { return frames_.frames_per_row(); }
  // Locates the frames of a row, or of the observation after one, the newest first: as many as
  // `frames` has room for, which is at most frames_per_row().
  void LocateFrames(int64_t id, absl::Span<FrameLocation> frames) const {
    frames_.Locate(id, frames);
  }
  void LocateFrames(const RowSuccessor& next, absl::Span<FrameLocation> frames) const {
    frames_.Locate(next, frames);
  }

  // Returns a pin, which must not outlive the store.
  RowPin Pin() { return rows_.memory().Pin(); }

  // The following functions are callable without the lock.
  const SpecPtr& spec() const { return rows_.spec(); }
  int obs_fields() const { return rows_.obs_fields(); }
  // The size of a row, whose fields lie side by side.
  int64_t row_bytes() const { return rows_.layout().row_bytes; }
  // Whether field `field` is a stack, of which a row stores only the newest frame.
  bool IsStack(int field) const { return rows_.IsStack(field); }
  // The address of field `field` of a row; for a stack, the address of its newest frame. For the
  // observation after a row, `field` must be an observation field that is not a stack.
  const std::byte* At(const RowLocation& location, int field) const {
    return rows_.At(location, field);
  }
  // Whether ReadAhead() is worth its calls: the store has a disk tier, and a row fills a page.
  bool reads_ahead() const {
    return rows_.memory().files() != nullptr && row_bytes() >= kReadAheadBytes;
  }
  // Asks the disk for a pinned row.
  void ReadAhead(const RowLocation& row) const { RowFiles::ReadAhead(row.at, row_bytes()); }
  // Copies field `field`, which is not a stack, of pinned rows to `to`, one after the other.
  void Gather(int field, absl::Span<const RowLocation> rows, std::byte* to) const;
  // Does the same for a field that is a stack. `frames` has frames_per_row() locations for each
  // row.
  void GatherStacks(int field, absl::Span<const FrameLocation> frames, std::byte* to) const {
    frames_.Gather(field, frames, to);
  }

  // A snapshot of the valid rows, links and final observations; the same rows in the same order
  // give the same bytes. The snapshot holds a pin, so it must not outlive the store.
  StateSnapshot Snapshot();
  // Creates a store with the saved rows and ids. kInvalidArgument, with found and expected, for
  // anything that a snapshot of a store of this capacity cannot have written. The rows may lie in
  // the files of a disk tier, whether this store has one or not.
  static absl::StatusOr<std::unique_ptr<RowStore>> Load(StateReader* reader,
                                                        const RowCapacity& capacity);
  // The rows that Load() could not read from files. EvictLost() must be called before they are used.
  const LostRows& lost() const { return lost_; }
  // Evicts the rows before lost().end. kResourceExhausted: out of memory.
  absl::Status EvictLost();

  // An error once the disk tier has failed: rows that were read since are wrong. Callable without
  // the lock.
  absl::Status disk_status() const {
    const RowFiles* const files = rows_.memory().files();
    return files == nullptr ? absl::OkStatus() : files->status();
  }

  // The number of streams whose newest row waits for a successor.
  int64_t open_streams() const { return rows_.open_streams(); }
  // The bytes allocated for rows, links and final observations, spare blocks included.
  int64_t allocated_bytes() const { return rows_.memory().allocated_bytes(); }

 private:
  static constexpr int64_t kReadAheadBytes = 4096;

  RowStore(SpecPtr rows, int obs_fields, int64_t capacity_rows, std::shared_ptr<RowFiles> files)
      : rows_(std::move(rows), obs_fields, capacity_rows, std::move(files)), frames_(&rows_) {}
  static absl::StatusOr<std::unique_ptr<RowStore>> Make(SpecPtr rows, int obs_fields,
                                                        const RowCapacity& capacity);

  LinkedRows rows_;
  FrameStore frames_;
  LostRows lost_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_STORE_H_
