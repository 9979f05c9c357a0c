// Removes rows from a buffer before they are its oldest: rows from which nothing more is to be learned. The
// buffer removes what is too stale or used up by itself (max_staleness, max_use).
//
// A removed row is never drawn or counted again. It stays in the ring until it is overwritten, and may be
// part of the n-step window of another row. Rows are named by their replay_unique_id.
//
// Ownership: a buffer owns its remover. The candidates are valid during the call only.
// Threads:   called under the buffer's lock, by one thread at a time. Must not call the buffer.
// Errors:    Remove() may fail or throw, which fails the draw. If Append(), Update() or LoadState() throws, so fails
//            the call of the buffer (a push although the rows are in it); the other functions must not throw.
//
// Example: a remover that keeps only every second row.
//   class RemoveOdd : public IRemover {
//    public:
//     absl::Status Remove(const Candidates& rows, int64_t, std::vector<int64_t>* ids) override {
//       for (int64_t rank = 0; rank < rows.size(); ++rank) {
//         if (rows.Id(rank) % 2 == 1) ids->push_back(rows.Id(rank));
//       }
//       return absl::OkStatus();
//     }
//   };
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_REMOVER_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_REMOVER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/selection/selector.h"

namespace ding {

class IRemover {
 public:
  virtual ~IRemover() = default;

  // Called after rows were pushed: row i of data.rows has the id `first_id` + i. The oldest rows have made
  // place for them.
  virtual void Append(const SegmentBatch& /*data*/, int64_t /*first_id*/) {}
  // Called before each draw, with the rows that can be drawn. Adds to `*ids`, which is empty, the ids of the
  // rows that leave; ids of rows that cannot be drawn have no effect. `learner_iter` is that of the draw.
  virtual absl::Status Remove(const Candidates& rows, int64_t learner_iter,
                              std::vector<int64_t>* ids) = 0;

  // Called with the priorities that IBuffer::Update() was given.
  virtual void Update(const PriorityInfo& /*info*/) {}
  // Called when the buffer drops all rows.
  virtual void Clear() {}

  // The state that is saved with the buffer; null if there is none. Append() is not called for rows that are
  // loaded, so a remover that knows something of them must save it.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  // Reads what Snapshot() wrote; called if Snapshot() does not return null. After an error the remover must
  // be as it was.
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_REMOVER_H_
