// Keeps what collectors produced and draws training batches from it.
//
//     Push(segments) ──► columns, one copy of each observation ──► Sample: a Batch, gathered into a
//                             ▲                                    pooled block
//                             └── Update(priorities)
//
// Rows are linked to their successors by (stream, step), also across pushes, so that next_obs,
// n-step returns and sequences are computed when a batch is drawn. The columns of a drawn batch are
// those of data/sample_columns.h.
//
// Ownership: a buffer copies what it is pushed; a drawn Batch owns its memory and never changes.
// Threads:   thread-safe: pushing, drawing and updating may overlap.
// Errors:    a call that fails leaves the buffer as it was.
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"

namespace ding {

// A part of the rows by age: the newest `newest` of them. Not set: all.
struct SampleOptions {
  std::optional<int64_t> newest;
  // Draw with replacement: the batch may be larger than the buffer, and rows may repeat.
  bool replace = false;
};

class IBuffer {
 public:
  virtual ~IBuffer() = default;

  // Appends the rows of all segments; when full, the oldest rows go. The first push fixes the rows'
  // spec; a later one that differs is kInvalidArgument, naming the field. `cur_collector_envstep`
  // is for statistics.
  virtual absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) = 0;

  // Draws `size` rows.
  //   kInvalidArgument     size < 1, or an empty part
  //   kFailedPrecondition  fewer valid rows than that (without replacement), or none; the message
  //   says how many
  virtual absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                                       const SampleOptions& options = {}) = 0;

  // New priorities. Rows that are gone are skipped. A buffer without priorities ignores it.
  virtual absl::Status Update(const PriorityInfo& info) = 0;

  // Forgets all rows.
  virtual void Clear() = 0;

  // Rows that can be drawn.
  virtual int64_t count() const = 0;
  // Rows pushed since the beginning, or since Clear().
  virtual int64_t push_count() const = 0;

  // The content of now. Rows are shared, not copied: they stay in memory for as long as the snapshot
  // lives, which pushing and drawing do not wait for.
  virtual StateSnapshot Snapshot() const = 0;
  absl::Status SaveState(StateWriter* writer) const { return Snapshot()(writer); }
  // kInvalidArgument if what was saved has another spec or capacity; the buffer is then unchanged.
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_H_
