// What the buffers of this package differ in, apart from their selector and their rate limiter:
//
//   DrawKind    exists for as long as its buffer: what its draws are called, how many candidates they
//               need, and the options and numbers that are saved with it
//   DrawSource  is made from a RowStore when the first push has fixed the rows: which rows or
//               sequences are candidates, and the columns that a draw has beside those of
//               TransitionReader
//
// Ownership: a ComposedBuffer owns both. A draw that is being gathered shares its source.
// Threads:   called under the buffer's lock, except for the functions marked "without the lock".
#ifndef DING_WORKER_REPLAY_BUFFER_DRAW_SOURCE_H_
#define DING_WORKER_REPLAY_BUFFER_DRAW_SOURCE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/row_store.h"
#include "ding_worker/replay_buffer/selector.h"
#include "ding_worker/replay_buffer/transition_reader.h"

namespace ding {

// Is called with the ids [begin, end) of rows that were retired: they stay in the ring until they are
// overwritten, but are never drawn again.
using RetiredRows = absl::FunctionRef<void(int64_t begin, int64_t end)>;

// One draw, as its source sees it.
struct DrawRequest {
  int64_t size;    // candidates to draw
  int64_t newest;  // from so many of the newest candidates, at least 1
  bool replace;
  ISelector* selector;
  Rng* rng;
  int64_t learner_iter;
  int64_t envstep;  // of the last push; -1: not known
};

// What Finish() needs of the moment of the draw.
struct DrawFacts {
  int64_t learner_iter = 0;
  int64_t envstep = -1;
  double beta = 0;
  float min_weight = 0;  // 0: all importance weights are 1
};

class DrawSource : public Candidates {
 public:
  explicit DrawSource(std::shared_ptr<TransitionReader> reader) : reader_(std::move(reader)) {}

  // Without the lock.
  TransitionReader& reader() const { return *reader_; }
  RowStore& store() const { return reader_->store(); }

  int64_t Id(int64_t rank) const override {
    int64_t id = rank;
    RanksToIds(absl::MakeSpan(&id, 1));
    return id;
  }

  // Rows that reports of the buffer count.
  virtual int64_t rows() const { return store().size(); }

  // kInvalidArgument: rows that must not be appended. Called before the store has them.
  virtual absl::Status Check(const SegmentBatch& /*data*/) const { return absl::OkStatus(); }
  // The store has appended `data`, whose first row got the id `first_id`, and evicted what had to go.
  virtual void Append(const SegmentBatch& /*data*/, int64_t /*first_id*/) {}
  // The store has forgotten all rows.
  virtual void Clear() {}

  // Retires what is too stale at this iteration of the learner.
  virtual void RetireStale(int64_t /*learner_iter*/, RetiredRows /*retired*/) {}
  // Whether a row that is in the store was retired.
  virtual bool IsRetired(int64_t /*id*/) const { return false; }

  // Chooses candidates and fills the ids of the draw and the columns that need the lock.
  virtual absl::Status Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) = 0;
  // The draw has succeeded: counts it, and retires what is used up.
  virtual DrawFacts Commit(const DrawRequest& /*request*/, TransitionDraw* /*draw*/,
                           RetiredRows /*retired*/) {
    return {};
  }
  // Fills the other columns, between Resolve() and Gather(), without the lock.
  virtual void Finish(const DrawFacts& /*facts*/, TransitionDraw* /*draw*/) const {}

  // State beside the rows; null: none. Load() is called on a new source whose store has the rows.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  virtual absl::Status Load(StateReader* /*reader*/) { return absl::OkStatus(); }

 protected:
  // Fills `ids` with the candidates that the selector chooses.
  absl::Status Select(const DrawRequest& request, absl::Span<int64_t> ids);
  // Replaces ranks by the ids of their candidates. Returns false, and leaves anything in `ranks`, if
  // one is not in [0, size()).
  virtual bool RanksToIds(absl::Span<int64_t> ranks) const = 0;
  // Draws in proportion to the priorities.
  virtual absl::Status DrawByPriority(const DrawRequest& /*request*/, absl::Span<int64_t> /*ids*/) {
    return absl::FailedPreconditionError("the buffer keeps no priorities to draw in proportion to");
  }

  // Whether all ranks are in [0, size).
  static bool InRange(absl::Span<const int64_t> ranks, int64_t size) {
    uint64_t largest = 0;  // without a branch per rank
    for (const int64_t rank : ranks) largest = std::max(largest, static_cast<uint64_t>(rank));
    return largest < static_cast<uint64_t>(size);
  }

 private:
  const std::shared_ptr<TransitionReader> reader_;
};

class DrawKind {
 public:
  virtual ~DrawKind() = default;

  // What saved states are marked with.
  virtual absl::string_view state_type() const = 0;
  virtual int64_t state_version() const = 0;

  // kInvalidArgument if such rows cannot be drawn so; kResourceExhausted. Without the lock.
  virtual absl::StatusOr<std::unique_ptr<DrawSource>> MakeSource(
      std::shared_ptr<RowStore> store) = 0;

  // "rows", "sequences of 80 rows", ...: for errors.
  virtual std::string candidates() const { return "rows"; }
  // How many candidates a draw of `size` needs, unless it repeats them.
  virtual double NeededFor(int64_t size) const { return static_cast<double>(size); }
  // kResourceExhausted if no batch may be so large.
  virtual absl::Status CheckSize(int64_t /*size*/) const { return absl::OkStatus(); }

  // kInvalidArgument: priorities that nobody can have. Without the lock.
  virtual absl::Status CheckUpdate(const PriorityInfo& /*info*/) const { return absl::OkStatus(); }
  // `source` is null until the first push.
  virtual void Update(const PriorityInfo& /*info*/, DrawSource* /*source*/) {}

  // Options that the saved rows depend on, and numbers that go on; null: none.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  // Checks and reads these, without the lock. What is returned takes them over, with the lock, when
  // all else has been read, too.
  virtual absl::StatusOr<std::function<void()>> Read(StateReader* /*reader*/) {
    return std::function<void()>([] {});
  }
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_DRAW_SOURCE_H_
