// The memory of all replay buffers: rows of segments in columns, oldest rows evicted first, one
// copy of each observation.
//
//     chunk 7             chunk 8             side block
//     obs     [ . . . . ] [ . . . . ]         obs [ . . . ]
//     action  [ . . . . ] [ . . . . ]               ^ ^
//     reward  [ . . . . ] [ . . . . ]               | |  what followed the last row of an episode
//     link    [ 0 1 0 0 ] [ 0 | | 0 ]               | |  or the newest row of a stream
//                             | +-------------------+-+
//                             +---------------------+
//
// Rows are numbered by a 64-bit id in the order of arrival, never again by the same. Row id lies in
// chunk id / chunk_rows. A row's link leads to its successor in its stream (by the number of rows
// between: streams interleave) or, when there is none yet or ever, to a slot with the observation
// after it. When the successor arrives, the slot is used again; when a row is evicted, so is its
// slot.
//
// A chunk is one aligned allocation. A side block is a chunk with the observation columns only, at
// the same offsets: whether the observation after a row lies here or there makes no difference to
// whoever copies it.
//
// Committed rows never change, so a reader finds the places of its rows under the owner's lock,
// takes a RowPin, and copies after releasing the lock. What is evicted meanwhile is used again only
// when the readers from before the eviction are gone; a reader that stays long makes the store
// allocate more.
//
// Memory: columns + 4 bytes per row; for each side slot an observation and 8 bytes; for each stream
//         that goes on about 50 bytes; two spare chunks. Chunks are allocated when rows arrive.
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

namespace ding {

// Where a row's columns lie; holds while pinned.
struct RowLocation {
  const std::byte* chunk;
  int64_t row;
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
  // Links are 32 bits wide.
  static constexpr int64_t kMaxCapacityRows = int64_t{1} << 29;

  // Rows of `rows`, whose first `obs_fields` fields are the observation. The first row's id is 0.
  //   kInvalidArgument    capacity outside 1 ... kMaxCapacityRows
  //   kResourceExhausted  more than this machine's memory, with the sum
  static absl::StatusOr<std::unique_ptr<RowStore>> Create(SpecPtr rows, int obs_fields,
                                                          int64_t capacity_rows);

  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // Appends all rows, evicting the oldest. `data` has passed ValidateSegments() and CheckLayout().
  //   kResourceExhausted  out of memory; nothing was appended or evicted
  absl::Status Append(const SegmentBatch& data);

  // InvalidArgument if the rows or final observations have other fields than the store's, naming
  // the field.
  absl::Status CheckLayout(const SegmentBatch& data, absl::string_view where) const;

  // Forgets the rows with ids below `id` (at most end_id()).
  void EvictBefore(int64_t id);

  // Valid ids are [begin_id, end_id).
  int64_t begin_id() const { return begin_; }
  int64_t end_id() const { return end_; }
  int64_t size() const { return end_ - begin_; }
  int64_t capacity_rows() const { return capacity_rows_; }

  RowLocation Locate(int64_t id) const {
    return {chunks_[(id >> chunk_shift_) & chunk_mask_].get(), id & row_mask_};
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

  RowPin Pin();

  // Without the lock.
  const SpecPtr& spec() const { return spec_; }
  int obs_fields() const { return obs_fields_; }
  // Row `location` of field `field`; for the observation after a row: observation fields only.
  const std::byte* At(const RowLocation& location, int field) const {
    return location.chunk + offsets_[field] + location.row * spec_->row_bytes(field);
  }
  // Copies field `field` of rows that are pinned to `to`, one after the other.
  void Gather(int field, absl::Span<const RowLocation> rows, std::byte* to) const;

  // Valid rows, links and final observations; the same rows in the same order give the same bytes.
  // What the snapshot writes it holds by a pin, so it must not outlive the store.
  StateSnapshot Snapshot();
  // A new store with the saved rows and ids. kInvalidArgument, with found and expected, for
  // anything that a snapshot of a store of this capacity cannot have written.
  static absl::StatusOr<std::unique_ptr<RowStore>> Load(StateReader* reader, int64_t capacity_rows);

  // Streams whose newest row waits for a successor.
  int64_t open_streams() const { return static_cast<int64_t>(open_tails_.size()); }
  // Bytes allocated for rows, links and final observations, spare chunks included.
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
    std::vector<Memory> chunks;
    std::vector<int32_t> slots;
  };

  RowStore(SpecPtr rows, int obs_fields, int64_t capacity_rows);

  int32_t& LinkOf(int64_t id) const {
    const RowLocation at = Locate(id);
    return reinterpret_cast<int32_t*>(const_cast<std::byte*>(at.chunk) + links_offset_)[at.row];
  }
  RowLocation LocateSlot(int32_t slot) const {
    return {side_blocks_[slot >> chunk_shift_].get(), slot & row_mask_};
  }
  int64_t ChunkOf(int64_t id) const { return id >> chunk_shift_; }
  // Calls f(first id, rows) for each chunk's part of [begin, end).
  template <typename F>
  void ForEachPiece(int64_t begin, int64_t end, F f) const;

  absl::Status Reserve(int64_t first_id, int64_t rows, int64_t slots);
  absl::Status ReserveSlots(int64_t slots);
  void ForgetTail(int32_t code, int64_t row);
  void ReleaseChunksBefore(int64_t chunk);
  void AddChunks(int64_t end);
  void CopyColumns(const ColumnsView& from, int64_t first_id);
  void LinkSegment(const Segment& segment, int64_t first_id, const ColumnsView& final_obs,
                   int64_t final_row);
  void Reclaim();
  bool NobodyReads() const;
  void RetireChunk(Memory chunk);
  void RetireSlot(int32_t slot);
  void TrimSpareChunks();

  struct SavedRows;
  void SaveLinks(SavedRows* saved, std::vector<RowLocation>* final_obs) const;
  int32_t SaveLink(int64_t id, SavedRows* saved, std::vector<RowLocation>* final_obs) const;
  void SaveColumns(SavedRows* saved) const;
  void SaveFinalObs(absl::Span<const RowLocation> final_obs, SavedRows* saved) const;
  absl::Status LoadRows(StateReader* reader, int64_t rows);
  absl::StatusOr<int32_t> LoadLinks(StateReader* reader);
  absl::Status LoadColumns(StateReader* reader);
  absl::Status LoadFinalObs(StateReader* reader, int32_t slots);
  absl::Status LoadOpenTails(StateReader* reader);

  const SpecPtr spec_;
  const int obs_fields_;
  const int64_t capacity_rows_;
  int chunk_shift_ = 0;
  int64_t row_mask_ = 0;
  std::vector<int64_t> offsets_;  // of the columns in a chunk
  int64_t links_offset_ = 0;
  int64_t chunk_bytes_ = 0;
  int64_t side_block_bytes_ = 0;

  int64_t begin_ = 0;
  int64_t end_ = 0;
  // Chunks [first_chunk_, end_chunk_), at their number modulo the size of the table.
  std::vector<Memory> chunks_;
  std::vector<int64_t> slots_in_chunk_;  // of valid rows; spares eviction most of its search
  int64_t chunk_mask_ = 0;
  int64_t first_chunk_ = 0;
  int64_t end_chunk_ = 0;
  std::vector<Memory> spare_chunks_;

  std::vector<Memory> side_blocks_;
  std::vector<int32_t> free_slots_;
  std::vector<int64_t> slot_stream_;  // of an open tail's slot
  absl::flat_hash_map<int64_t, OpenTail> open_tails_;

  std::deque<Epoch> epochs_;  // oldest first, never empty
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ROW_STORE_H_
