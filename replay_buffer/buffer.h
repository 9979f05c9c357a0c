// Keeps what collectors produced and draws training batches from it.
//
//     Push(segments) ──► columns, one copy of each observation ──► Sample: a Batch, gathered into a
//                             ▲                                    pooled block
//                             └── Update(priorities)
//
// Your own program may also push single transitions (data/transition.h), which become segments
// first.
//
// Rows are linked to their successors by (stream, step), also across pushes, so that next_obs,
// n-step returns and sequences are computed when a batch is drawn. The columns of a drawn batch are
// those of data/sample_columns.h.
//
// Ownership: a buffer copies what it is pushed; a drawn Batch owns its memory and never changes.
// Threads:   thread-safe: pushing, drawing and updating may overlap.
// Errors:    a call that fails leaves the buffer as it was, except that a draw may have retired
//            stale rows (AdvancedReplayBuffer).
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/transition.h"

namespace ding {

// The candidates [begin, end) of a draw, in the order of their age. Numbers from 0 on count from
// the oldest one, which is 0; negative numbers count from the newest one, which is -1. Numbers
// beyond either end stand for that end. {0, 100} are the 100 oldest, {-100} the 100 newest, {100,
// -100} all between these two groups.
struct AgeRange {
  int64_t begin = 0;
  std::optional<int64_t> end;  // not set: up to the newest, which is included
};

// Which part of the buffer to draw from, and how.
struct SampleOptions {
  // Draw only from this many of the newest candidates: rows, or sequences or episodes in buffers
  // that draw these. Not set: from all.
  std::optional<int64_t> newest;
  // Draw with replacement: rows may repeat, so the batch may be larger than the buffer.
  bool replace = false;
  // Draw only from this range of the candidates that `newest` leaves; not set: from all of them.
  std::optional<AgeRange> range;
  // For buffers of sequences: the number of rows of each sequence of this draw. Not set: as the
  // buffer was configured.
  std::optional<int64_t> sequence;
};

class IBuffer {
 public:
  virtual ~IBuffer() = default;

  // Appends the rows of all segments, and evicts the oldest rows when the buffer is full. The first
  // push fixes the spec of the rows. `cur_collector_envstep` is for statistics and for the window
  // of ElasticReplayBuffer; -1: not known.
  //   kInvalidArgument  the rows have another spec than those of the first push; the message names
  //                     the field
  virtual absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) = 0;
  // Push one or several transitions. They do not continue transitions of earlier pushes. Also
  // return the errors of MakeSegments(). A class that overrides Push() must say `using
  // IBuffer::Push;` to keep these overloads visible.
  absl::Status Push(const Transition& transition, int64_t cur_collector_envstep) {
    return Push(absl::MakeConstSpan(&transition, 1), cur_collector_envstep);
  }
  absl::Status Push(absl::Span<const Transition> transitions, int64_t cur_collector_envstep) {
    DING_ASSIGN_OR_RETURN(const SegmentBatch data, MakeSegments(transitions));
    return Push(data, cur_collector_envstep);
  }

  // Draws `size` rows, or `size` sequences or episodes in buffers that draw these.
  //   kInvalidArgument     `size` or SampleOptions::newest is below 1; SampleOptions::range is
  //                        empty for every number of rows; or the buffer cannot draw
  //                        SampleOptions::sequence
  //   kFailedPrecondition  there are fewer valid rows to draw from than `size` or, with
  //                        replacement, none; the message says how many there are
  virtual absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                                       const SampleOptions& options = {}) = 0;

  // Sets the priorities of rows. Skips rows that have left the buffer. A buffer without priorities
  // ignores the call.
  virtual absl::Status Update(const PriorityInfo& info) = 0;

  // Forgets all rows.
  virtual void Clear() = 0;

  // Writes the last throughput report, flushes the metrics, and wakes calls that wait. Afterwards
  // Push() and Sample() return kFailedPrecondition; the rows stay, so that they can be saved. A
  // further call does nothing.
  virtual absl::Status Close() { return absl::OkStatus(); }

  // Whether batches are sequences of rows (Batch::sequence_length()).
  virtual bool draws_sequences() const { return false; }

  // The number of rows (or sequences or episodes) that can be drawn.
  virtual int64_t count() const = 0;
  // The number of rows that were pushed since the beginning, or since the last Clear().
  virtual int64_t push_count() const = 0;

  // Returns the content at this moment. Rows are shared, not copied: they stay in memory for as
  // long as the snapshot exists. Pushing and drawing do not wait for a snapshot that is being
  // written.
  virtual StateSnapshot Snapshot() const = 0;
  absl::Status SaveState(StateWriter* writer) const { return Snapshot()(writer); }
  // Replaces the content. After an error the buffer is unchanged.
  //   kInvalidArgument     the saved buffer has another type, spec or capacity, or the state is not
  //                        valid
  //   kFailedPrecondition  another version of this type saved the state
  virtual absl::Status LoadState(StateReader* reader) = 0;
  // Returns a text that says which rows the last LoadState() could not load because the disk has
  // lost them, and why; "" if none are lost.
  virtual std::string lost_rows() const { return ""; }
};

// Items (data/items.h) that have left a buffer. A buffer of items reports them to its owner, who
// can then delete their data (used_data_remover.h).
//
// An item leaves when it is overwritten, was drawn max_use times, is found too stale, or is
// cleared. Each item is reported once, by the thread whose call removed it. That thread has
// released the buffer's lock, so the callback may call the buffer. Two threads may report at the
// same time, and not in the order in which the items left. Items that LoadState() replaces are not
// reported, since the new content may refer to the same data.
//
// An item may leave while batches with it are still in use, and an item that a draw uses up leaves
// even before that draw returns. So the owner must delay deletion until the batches drawn before
// are done.
//
// Example:
//   UsedDataRemover remover(DeleteFilesIn(path_data));
//   options.on_removed = [&remover](const RemovedItems& removed) {
//     for (const int64_t chunk : removed.chunks) remover.Add(FileOfChunk(chunk));
//   };
struct RemovedItems {
  std::vector<Item> items;
  // The chunks whose last item is among `items`. A chunk that gets items again later is reported
  // again.
  std::vector<int64_t> chunks;
};

// The callback of a buffer. If it throws, Push() or Sample() returns an error although the rows
// were pushed or drawn. If it is not set, the buffer does not track items that leave.
using OnRemoved = std::function<void(const RemovedItems&)>;

// Calls `on_removed` if it is set and `removed` has items.
inline void TellRemoved(const OnRemoved& on_removed, const RemovedItems& removed) {
  if (!removed.items.empty() && on_removed != nullptr) on_removed(removed);
}

// Wraps `buffer` (not null), which a user may have written, and turns exceptions into errors of the
// call. If a function without a status throws, the next Push(), Sample() or Update() returns the
// error.
std::unique_ptr<IBuffer> GuardBuffer(std::unique_ptr<IBuffer> buffer);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_H_
