// The parts of a buffer that you may replace: ISelector chooses what is drawn, IRemover removes
// rows early. Also the selectors that come with the buffers, and UniformDraw, which they use.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"

namespace ding {

// The rows or sequences that can be drawn at the moment.
class Candidates {
 public:
  virtual ~Candidates() = default;

  virtual int64_t size() const = 0;
  // The replay_unique_id of the candidate with this rank; for a sequence or an episode, the id of
  // its first row. Ids grow with the rank. A call may take O(log capacity).
  virtual int64_t Id(int64_t rank) const = 0;
};

// Chooses what a draw consists of: the part of a buffer that a user is most likely to replace.
//
// A candidate is a row, a sequence or a whole episode, depending on the buffer. A selector names it
// by its rank; the oldest has rank 0. So one selector works with every buffer.
//
// Ownership: a buffer owns its selector. The candidates are valid during the call only.
// Threads:   called under the buffer's lock, by one thread at a time. Must not call the buffer.
// Errors:    Select() may fail or throw, which fails the draw. If Update() or LoadState() throws,
//            the buffer's call fails; the other functions must not throw.
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
class ISelector {
 public:
  virtual ~ISelector() = default;

  // Fills `ranks` with the ranks of candidates, chosen from the `newest` newest: 1 <= newest <=
  // from.size(). If SampleOptions::range excludes the newest candidates of the buffer, `from`
  // excludes them too. Without `replace` the ranks should differ; there are then at least
  // ranks.size() candidates. Random numbers must come from `rng`, whose state is saved with the
  // buffer and restored if the draw fails. An error, or a rank that no candidate has, makes the
  // draw fail.
  virtual absl::Status Select(const Candidates& from, int64_t newest, bool replace, Rng* rng,
                              absl::Span<int64_t> ranks) = 0;

  // If true, the buffer does not call Select(): it draws in proportion to its priorities and
  // corrects for this by importance weights. Draws of a buffer without priorities then return
  // kFailedPrecondition.
  virtual bool ByPriority() const { return false; }

  // Called with the priorities that IBuffer::Update() was given.
  virtual void Update(const PriorityInfo& /*info*/) {}
  // Called when the buffer drops all rows.
  virtual void Clear() {}

  // The state that is saved with the buffer; null if there is none.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  // Reads what Snapshot() wrote; called if Snapshot() does not return null. After an error the
  // selector must be as it was.
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }
};

// Removes rows before the ring evicts them, for example rows from which nothing more can be
// learned. The buffer itself already removes rows that are too stale or used too often
// (max_staleness, max_use).
//
// A removed row is never drawn or counted again. It stays in the ring until it is overwritten, and
// may be part of the n-step window of another row. Rows are named by their replay_unique_id.
//
// Ownership: a buffer owns its remover. The candidates are valid during the call only.
// Threads:   called under the buffer's lock, by one thread at a time. Must not call the buffer.
// Errors:    Remove() may fail or throw, which fails the draw. If Append(), Update() or LoadState()
//            throws, the buffer's call fails (a push fails although its rows are in the
//            buffer). The other functions must not throw.
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
class IRemover {
 public:
  virtual ~IRemover() = default;

  // Called after rows were pushed: row i of data.rows has the id `first_id` + i. The oldest rows
  // were evicted to make room for them.
  virtual void Append(const SegmentBatch& /*data*/, int64_t /*first_id*/) {}
  // Called before each draw with the rows that can be drawn. Adds to `*ids`, which is empty at
  // first, the ids of the rows to remove; ids of rows that cannot be drawn have no effect.
  // `learner_iter` is the learner's iteration at the draw.
  virtual absl::Status Remove(const Candidates& rows, int64_t learner_iter,
                              std::vector<int64_t>* ids) = 0;

  // Called with the priorities that IBuffer::Update() was given.
  virtual void Update(const PriorityInfo& /*info*/) {}
  // Called when the buffer drops all rows.
  virtual void Clear() {}

  // The state that is saved with the buffer; null if there is none. Append() is not called for rows
  // that are loaded, so a remover that keeps data about rows must save it.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  // Reads what Snapshot() wrote; called if Snapshot() does not return null. After an error the
  // remover must be as it was.
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }
};

// Draws indices uniformly at random, with or without replacement.
//
// Draws without replacement use Floyd's method (Bentley and Floyd, "A sample of brilliance", CACM
// 1987): one random number and one lookup in a small table per index, whatever n is. Every set of
// indices is equally likely, but their order is not random.
//
// Threads: thread-compatible.
class UniformDraw {
 public:
  // Fills `out` with indices in [0, n), 1 <= n < 2^32; they may repeat.
  static void WithReplacement(int64_t n, Rng* rng, absl::Span<int64_t> out);
  // Does the same, but all indices differ; out.size() <= n.
  void WithoutReplacement(int64_t n, Rng* rng, absl::Span<int64_t> out);

 private:
  std::vector<uint32_t> table_;  // open addressing: index + 1, or 0 for a free place
};

// Draws every candidate with the same probability; without `replace` no candidate twice.
class UniformSelector : public ISelector {
 public:
  absl::Status Select(const Candidates& from, int64_t newest, bool replace, Rng* rng,
                      absl::Span<int64_t> ranks) override {
    if (replace) {
      draw_.WithReplacement(newest, rng, ranks);
    } else {
      draw_.WithoutReplacement(newest, rng, ranks);
    }
    const int64_t first = from.size() - newest;
    if (first == 0) return absl::OkStatus();
    for (int64_t& rank : ranks) rank += first;
    return absl::OkStatus();
  }

 private:
  UniformDraw draw_;
};

// Tells a prioritized buffer to draw in proportion to priority^alpha (PriorityTable::Draw()). A
// candidate whose weight exceeds one stratum can be drawn more than once.
class ProportionalSelector : public ISelector {
 public:
  absl::Status Select(const Candidates& /*from*/, int64_t /*newest*/, bool /*replace*/,
                      Rng* /*rng*/, absl::Span<int64_t> /*ranks*/) override {
    return absl::InternalError("a buffer draws in proportion to its priorities itself");
  }
  bool ByPriority() const override { return true; }
};

// Returns `given`, or if it is null a new selector of the type `Default`.
template <typename Default>
std::shared_ptr<ISelector> SelectorOr(const std::shared_ptr<ISelector>& given) {
  return given != nullptr ? given : std::make_shared<Default>();
}

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_H_
