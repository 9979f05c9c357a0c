// The rows of one buffer_id, and the demands of the learner that draws from them.
//
//     AddDemand ──► demands ──NextDemand──► Draw(rows) ──► Answered, or TooFewRows: it waits on
//                                              │
//     Removed ──► chunks that left ────────────┴──► TakeDeletable: which nobody reads any more
//
// One thread at a time serves demands, so that they are answered in order; one that comes meanwhile
// leaves a note that it is worth another look (BeginServing).
//
// Ownership: owns the buffer.
// Threads:   thread-compatible: the coordinator's lock guards it. But the buffer itself, which is
//            thread-safe: it is pushed into and drawn from without that lock.
#ifndef DING_WORKER_COORDINATOR_TASK_BUFFER_H_
#define DING_WORKER_COORDINATOR_TASK_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/known_chunks.h"
#include "ding_worker/coordinator/removed_chunks.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/removed_items.h"

namespace ding {

// What a demand drew.
struct Drawn {
  LearnerData answer;
  int64_t rows = 0;
  double staleness = 0;  // mean; 0 if the rows do not say
};

// As many of the demanded batches as there are rows for, at least one; else why there is none. Rows
// of the chunks in `undrawable` (null: none) are left out, and others drawn in their place: a row may
// then be in a batch twice.
absl::StatusOr<Drawn> Draw(IBuffer* rows, const LearnerDemand& demand,
                           const ChunkSet* undrawable = nullptr);

// The chunks of `items`, each once, in the order of their numbers.
//   kInvalidArgument  one was not made by `worker`; two items of a chunk have a row in common; a row
//                     that no chunk has
absl::StatusOr<std::vector<int64_t>> ChunksOf(const Batch& items, uint32_t worker);

class TaskBuffer {
 public:
  // Demands that wait for data, and those whose answers are not read.
  static constexpr size_t kMaxWaitingDemands = 64;
  static constexpr size_t kMaxUnreadDemands = 1024;

  explicit TaskBuffer(std::string id) : id_(std::move(id)) {}

  const std::string& id() const { return id_; }
  IBuffer* rows() const { return rows_.get(); }
  // Once: the buffer tells this object what it removes, so it is made after it.
  void set_rows(std::unique_ptr<IBuffer> rows) { rows_ = std::move(rows); }

  // Held while rows are pushed and journaled, so that the journal has the buffer's order; taken
  // before the coordinator's lock.
  Mutex* pushing() { return &pushing_; }
  // Pushed since its beginning, also to earlier coordinators of the run.
  int64_t rows_total() const { return rows_before_ + rows_->push_count(); }
  int64_t rows_lost() const { return rows_lost_; }
  // It holds what is left of `rows_total` rows of an earlier coordinator, of which the data of
  // `rows_lost` are gone. Before anybody pushes.
  void Recovered(int64_t rows_total, int64_t rows_lost);

  // A learner has started: collecting for it makes sense.
  bool started() const { return started_; }
  void set_started() { started_ = true; }
  // Its last learner task is over.
  bool closed() const { return closed_; }
  void set_closed() { closed_ = true; }
  // That runs the task.
  std::optional<uint32_t> learner() const { return learner_; }
  void set_learner(uint32_t worker) { learner_ = worker; }
  // It takes its demands along; the next one counts its own anew.
  void ForgetLearner();

  // kResourceExhausted: too many wait, or are not reported read.
  absl::Status AddDemand(const LearnerDemand& demand);
  // False: another thread serves, and looks again.
  bool BeginServing();
  // Chunks whose rows are not to be drawn; null: none.
  std::shared_ptr<const ChunkSet> undrawable() { return chunks_.undrawable(); }
  // The next one to draw for; none: serving is over. `answered`: the last one was.
  std::optional<LearnerDemand> NextDemand(bool answered);
  // Whether it still waits.
  bool IsAsked(const LearnerDemand& demand) const;
  void Answered(const Drawn& drawn);
  void TooFewRows(const LearnerDemand& demand) { removed_.CancelDraw(demand.sequence()); }
  // Grows with each: for who waits for room.
  int64_t answers() const { return answers_; }

  // Chunks that are about to be pushed, or could not be.
  void AddChunks(const std::vector<int64_t>& chunks) { chunks_.Add(chunks); }
  void DropChunks(const std::vector<int64_t>& chunks) { chunks_.Forget(chunks); }
  // The learner cannot learn from it: its rows are drawn no more.
  KnownChunks::Marked MarkBad(int64_t chunk) { return chunks_.MarkBad(chunk); }
  const KnownChunks& chunks() const { return chunks_; }
  void Removed(const RemovedItems& removed);
  // Chunks that nobody reads any more; each is returned once.
  std::vector<int64_t> TakeDeletable();

  // Asks the buffer, too, which may wait for it: not under the coordinator's lock.
  void FillRows(BufferStatus* status) const;
  // All the rest.
  void FillStatus(BufferStatus* status) const;

 private:
  const std::string id_;
  std::unique_ptr<IBuffer> rows_;
  Mutex pushing_;
  int64_t rows_before_ = 0;  // pushed, and not counted by the buffer
  int64_t rows_lost_ = 0;
  bool started_ = false;
  bool closed_ = false;
  std::optional<uint32_t> learner_;
  std::deque<LearnerDemand> demands_;
  bool serving_ = false;      // a thread draws for them, ...
  bool serve_again_ = false;  // ... and rows came meanwhile
  RemovedChunks removed_;
  int64_t answers_ = 0;
  int64_t rows_drawn_ = 0;
  int64_t rows_removed_ = 0;
  KnownChunks chunks_;
  double staleness_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TASK_BUFFER_H_
