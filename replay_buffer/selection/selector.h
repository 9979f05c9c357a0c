// Chooses what a draw consists of: the part of a buffer that a user is most likely to replace.
//
// A candidate is a row, a sequence or a whole episode, depending on the buffer. A selector names it by its
// rank; the oldest has rank 0. So one selector works with every buffer.
//
// Ownership: a buffer owns its selector. The candidates are valid during the call only.
// Threads:   called under the buffer's lock, by one thread at a time. Must not call the buffer.
// Errors:    Select() may fail or throw, which fails the draw. If Update() or LoadState() throws, so fails the call
//            of the buffer; the other functions must not throw.
//
// Example: a selector that draws the newest candidates, in turn.
//   class NewestFirst : public ISelector {
//    public:
//     absl::Status Select(const Candidates& from, int64_t newest, bool replace, Rng* rng,
//                         absl::Span<int64_t> ranks) override {
//       for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = from.size() - 1 - i % newest;
//       return absl::OkStatus();
//     }
//   };
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/state.h"

namespace ding {

// The rows or sequences that can be drawn at the moment.
class Candidates {
 public:
  virtual ~Candidates() = default;

  virtual int64_t size() const = 0;
  // The replay_unique_id of the candidate with this rank; for a sequence or an episode, that of its first
  // row. Ids grow with the rank. A call may take O(log capacity).
  virtual int64_t Id(int64_t rank) const = 0;
};

class ISelector {
 public:
  virtual ~ISelector() = default;

  // Fills `ranks` with the ranks of candidates, chosen from the `newest` newest: 1 <= newest <= from.size().
  // If SampleOptions::range ends before the newest candidates of the buffer, `from` does not have these.
  // Without `replace` the ranks should differ; there are then enough candidates. Random numbers must come
  // from `rng`, whose state is saved with the buffer and restored if the draw fails. An error, or a rank
  // that no candidate has, makes the draw fail.
  virtual absl::Status Select(const Candidates& from, int64_t newest, bool replace, Rng* rng,
                              absl::Span<int64_t> ranks) = 0;

  // Whether the buffer draws in proportion to its priorities instead of calling Select(), and corrects for
  // this by importance weights. If true, draws of a buffer without priorities are kFailedPrecondition.
  virtual bool ByPriority() const { return false; }

  // Called with the priorities that IBuffer::Update() was given.
  virtual void Update(const PriorityInfo& /*info*/) {}
  // Called when the buffer drops all rows.
  virtual void Clear() {}

  // The state that is saved with the buffer; null if there is none.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  // Reads what Snapshot() wrote; called if Snapshot() does not return null. After an error the selector must
  // be as it was.
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_H_
