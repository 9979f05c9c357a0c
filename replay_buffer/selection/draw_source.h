// The parts in which the buffers of this package differ, besides their selector and their rate
// limiter:
//
//   DrawKind    exists for as long as its buffer. It knows how errors call the candidates, how many
//               of them a draw needs, and which options and numbers are saved with the buffer.
//   DrawSource  is made from a RowStore when the first push has fixed the rows. It knows which rows
//               or sequences are candidates, and fills the columns that a batch has besides those
//               of TransitionReader.
//
// Ownership: a ComposedBuffer owns both. A draw that is being gathered shares its source.
// Threads:   called under the buffer's lock, except for the functions marked "without the lock".
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_DRAW_SOURCE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_DRAW_SOURCE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {

// A callback that gets the ids [begin, end) of rows that were retired. Retired rows stay in the
// ring until they are overwritten, but are never drawn again.
using RetiredRows = absl::FunctionRef<void(int64_t begin, int64_t end)>;

// One draw, as its source sees it.
struct DrawRequest {
  int64_t size;        // how many candidates to draw
  int64_t first_rank;  // it draws from the ranks [first_rank, end_rank), which are not empty
  int64_t end_rank;
  bool replace;
  std::optional<int64_t> sequence;  // SampleOptions::sequence, which CheckSequence() has accepted
  ISelector* selector;
  Rng* rng;
  int64_t learner_iter;
  int64_t envstep;  // the env step of the last push; -1: not known
};

// Facts about the moment of the draw that Finish() needs.
struct DrawFacts {
  int64_t learner_iter = 0;
  int64_t envstep = -1;
  double beta = 0;
  float min_weight = 0;  // 0: all importance weights are 1
  int64_t candidate_rows = 1;
};

class DrawSource : public Candidates {
 public:
  explicit DrawSource(std::shared_ptr<TransitionReader> reader) : reader_(std::move(reader)) {}

  // Callable without the lock.
  TransitionReader& reader() const { return *reader_; }
  RowStore& store() const { return reader_->store(); }

  int64_t Id(int64_t rank) const override {
    int64_t id = rank;
    RanksToIds(absl::MakeSpan(&id, 1));
    return id;
  }

  // The number of rows that the reports of the buffer give (PeriodicThruputMonitor).
  virtual int64_t rows() const { return store().size(); }

  // Called before the store appends `data`. Returns kInvalidArgument if it must not.
  virtual absl::Status Check(const SegmentBatch& /*data*/) const { return absl::OkStatus(); }
  // Called after the store has appended `data`, whose first row got the id `first_id`, and has
  // evicted the oldest rows.
  virtual void Append(const SegmentBatch& /*data*/, int64_t /*first_id*/) {}
  // Called after the store has dropped all rows.
  virtual void Clear() {}

  // Retires the rows that are too stale at this iteration of the learner.
  virtual void RetireStale(int64_t /*learner_iter*/, RetiredRows /*retired*/) {}
  // Retires a row, if it can be drawn. Only of kinds for which ComposedBuffer takes a remover.
  virtual void Retire(int64_t /*id*/, RetiredRows /*retired*/) {}
  // Whether a row that is in the store was retired.
  virtual bool IsRetired(int64_t /*id*/) const { return false; }

  // The number of rows of each candidate, without padding; the one with the oldest first row first.
  virtual std::vector<int64_t> Lengths() const {
    return std::vector<int64_t>(static_cast<size_t>(size()), 1);
  }

  // For the error of a draw if rows were pushed but there are no candidates: why, and what to do;
  // empty if there is nothing to say.
  virtual std::string WhyNoCandidates() const { return ""; }

  // Chooses candidates and fills the ids of the draw and the columns that need the lock.
  virtual absl::Status Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) = 0;
  // Called after Draw() has succeeded: counts the draw, and retires the rows that it uses up.
  virtual DrawFacts Commit(const DrawRequest& /*request*/, TransitionDraw* /*draw*/,
                           RetiredRows /*retired*/) {
    return {};
  }
  // Fills the other columns. Called between Resolve() and Gather(), without the lock.
  virtual void Finish(const DrawFacts& /*facts*/, TransitionDraw* /*draw*/) const {}

  // Changes the gathered columns. Called after Gather(), without the lock.
  virtual void Edit(TransitionDraw* /*draw*/) const {}

  // The state besides the rows; null if there is none. Load() is called on a new source whose store
  // has the rows.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  virtual absl::Status Load(StateReader* /*reader*/) { return absl::OkStatus(); }

 protected:
  // Fills `ids` with the candidates that the selector chooses.
  absl::Status Select(const DrawRequest& request, absl::Span<int64_t> ids);
  // Replaces ranks by the ids of their candidates. Returns false if a rank is not in [0, size());
  // `ranks` is then undefined.
  virtual bool RanksToIds(absl::Span<int64_t> ranks) const = 0;
  // Fills `ids` with candidates that are drawn in proportion to their priorities.
  virtual absl::Status DrawByPriority(const DrawRequest& /*request*/, absl::Span<int64_t> /*ids*/) {
    return absl::FailedPreconditionError("the buffer keeps no priorities to draw in proportion to");
  }

  // Whether all ranks are in [0, size).
  static bool InRange(absl::Span<const int64_t> ranks, int64_t size) {
    uint64_t signs = 0;  // without a branch per rank
    for (const int64_t rank : ranks) {
      signs |= static_cast<uint64_t>(rank) | (static_cast<uint64_t>(size) - 1 - rank);
    }
    return static_cast<int64_t>(signs) >= 0;
  }

 private:
  const std::shared_ptr<TransitionReader> reader_;
};

class DrawKind {
 public:
  virtual ~DrawKind() = default;

  // The type and version with which saved states are marked.
  virtual absl::string_view state_type() const = 0;
  virtual int64_t state_version() const = 0;
  // Returns an error unless a buffer with such draws can load the saved state, by its type and
  // version.
  virtual absl::Status CheckSaved(StateReader* reader) const;

  // Makes the source for the rows of `store`. Called with or without the lock.
  //   kInvalidArgument    the rows lack what such draws need
  //   kResourceExhausted  there is not enough memory
  virtual absl::StatusOr<std::unique_ptr<DrawSource>> MakeSource(
      std::shared_ptr<RowStore> store) = 0;

  // How errors call the candidates: "rows", "sequences of 80 rows", ...
  virtual std::string candidates() const { return "rows"; }
  // How many candidates a draw of `size` needs if it must not repeat them.
  virtual double NeededFor(int64_t size) const { return static_cast<double>(size); }
  // Whether batches are sequences of rows (Batch::sequence_length()).
  virtual bool draws_sequences() const { return false; }
  // Returns kInvalidArgument if draws cannot have sequences of so many rows
  // (SampleOptions::sequence).
  virtual absl::Status CheckSequence(int64_t rows) const;
  // Returns kResourceExhausted if no batch may be so large. `sequence` as in DrawRequest.
  virtual absl::Status CheckSize(int64_t /*size*/, std::optional<int64_t> /*sequence*/) const {
    return absl::OkStatus();
  }

  // Returns kInvalidArgument if a priority is not valid. Called without the lock.
  virtual absl::Status CheckUpdate(const PriorityInfo& /*info*/) const { return absl::OkStatus(); }
  // Sets priorities. `source` is null until the first push.
  virtual void Update(const PriorityInfo& /*info*/, DrawSource* /*source*/) {}

  // The options that the saved rows depend on, and the numbers that continue after loading; null if
  // there are none.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  // Reads and checks what Snapshot() wrote, without the lock. The returned function applies it; it
  // is called with the lock, after everything else has been read.
  virtual absl::StatusOr<std::function<void()>> Read(StateReader* /*reader*/) {
    return std::function<void()>([] {});
  }
};

// Draws single rows: every row of the ring is a candidate. NaiveReplayBuffer draws in this way.
class RowSource : public DrawSource {
 public:
  using DrawSource::DrawSource;

  int64_t size() const override { return store().size(); }
  absl::Status Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) override;

 protected:
  bool RanksToIds(absl::Span<int64_t> ranks) const override;
};

class RowDraws : public DrawKind {
 public:
  RowDraws(int64_t nstep, double gamma) : nstep_(nstep), gamma_(gamma) {}

  absl::string_view state_type() const override { return "naive"; }
  int64_t state_version() const override { return 1; }
  absl::StatusOr<std::unique_ptr<DrawSource>> MakeSource(std::shared_ptr<RowStore> store) override;

 private:
  const int64_t nstep_;
  const double gamma_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_DRAW_SOURCE_H_
