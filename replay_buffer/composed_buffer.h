// A replay buffer that is composed of parts. This class does what all buffers have in common: it
// pushes, draws, counts, waits, reports items that left, saves and loads.
//
//     Push ──► IRateLimiter ──► RowStore ──► DrawSource ──► ItemBook
//               allowed?         the rows     candidates     items that left
//     Sample ─► IRateLimiter ──► ISelector ─► DrawSource ──► TransitionReader ──► Batch
//               allowed?         which?       columns        copies, without the lock
//            └► IRemover: rows that leave before the draw
//
// The buffers of this package (naive, advanced, sequence, episode) derive from it and only choose
// the parts. Parts::selector and Parts::remover may be a user's own.
//
// Ownership: copies what it is pushed; owns its parts.
// Threads:   thread-safe. Rows are chosen under the lock and copied after it.
// Errors:    as IBuffer says; all begin with the buffer's name. A call that fails changes nothing,
//            except that stale rows which a draw has retired stay retired
//            (DrawSource::RetireStale).
#ifndef DING_WORKER_REPLAY_BUFFER_COMPOSED_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_COMPOSED_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/storage/item_book.h"
#include "ding_worker/replay_buffer/storage/row_files.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {

class ComposedBuffer : public IBuffer {
 public:
  using IBuffer::Push;
  absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) override;
  absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                               const SampleOptions& options = {}) override;
  absl::Status Update(const PriorityInfo& info) override;
  void Clear() override;
  absl::Status Close() override;
  bool draws_sequences() const override { return kind_->draws_sequences(); }
  int64_t count() const override;
  int64_t push_count() const override;
  StateSnapshot Snapshot() const override;
  absl::Status LoadState(StateReader* reader) override;
  std::string lost_rows() const override;

 protected:
  struct Options {
    std::string name;  // prefix of errors and metrics; names the random stream
    uint64_t seed = 0;
    RowCapacity capacity;
    std::shared_ptr<MetricSink> metrics;  // null: nothing is counted
    double periodic_thruput_seconds = 60;
    const Clock* clock = Clock::Real();
    OnRemoved on_removed;  // only for rows that are items
    // How long a push or draw that exceeds the rate limits, or a draw for which there are too few
    // rows, waits for other threads to change this before it is refused; zero: it does not wait.
    absl::Duration max_wait = absl::ZeroDuration();
  };
  struct Parts {
    std::unique_ptr<DrawKind> kind;
    std::shared_ptr<ISelector> selector;
    std::unique_ptr<IRateLimiter> limiter;  // null: no limit
    std::shared_ptr<IRemover> remover =
        nullptr;  // only for kinds whose source can Retire(); null: none
  };

  ComposedBuffer(Options options, Parts parts);

  // For derived classes that report on their parts.
  const DrawKind& kind() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return *kind_; }
  // Null until the first push.
  const DrawSource* source() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return contents_ == nullptr ? nullptr : contents_->source.get();
  }

  mutable Mutex mutex_;

 private:
  // The parts that depend on the spec of the rows, which the first push fixes. A draw that is being
  // gathered shares the source.
  struct Contents {
    std::shared_ptr<DrawSource> source;
    std::unique_ptr<ItemBook> held;  // null without on_removed
  };

  absl::StatusOr<std::unique_ptr<Contents>> MakeContents(std::shared_ptr<RowStore> store) const;
  absl::StatusOr<std::unique_ptr<Contents>> ContentsFor(const SegmentBatch& data) const;
  absl::Status PushChecked(const SegmentBatch& data, RemovedItems* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Batch> SampleChecked(int64_t size, int64_t iter, const SampleOptions& options,
                                      RemovedItems* removed) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status LoadChecked(StateReader* reader, RemovedItems* removed) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::string> DropLost(Contents* contents, RemovedItems* removed) const;
  // Calls on_removed; an exception is an error.
  absl::Status Tell(const RemovedItems& removed) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckOpen() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool WaitForChange(const Timer& waited) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitUntilPushAllowed(int64_t rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitUntilDrawAllowed(int64_t size, int64_t iter, const SampleOptions& options,
                                    RemovedItems* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RetireChosen(int64_t iter, RetiredRows retired)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckEnough(int64_t size, const SampleOptions& options) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t CountLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  int64_t RowsLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::unique_ptr<DrawKind> kind_;
  const std::shared_ptr<ISelector> selector_;  // called with mutex_ held
  const std::unique_ptr<IRateLimiter> limiter_ ABSL_PT_GUARDED_BY(mutex_);
  const std::shared_ptr<IRemover> remover_;                     // called with mutex_ held
  std::vector<int64_t> chosen_ ABSL_GUARDED_BY(mutex_);         // by the remover, reused
  CondVar changed_;                                             // rows were pushed or drawn
  std::unique_ptr<Contents> contents_ ABSL_GUARDED_BY(mutex_);  // null until the first push
  int64_t push_count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::string lost_rows_ ABSL_GUARDED_BY(mutex_);
  Rng rng_ ABSL_GUARDED_BY(mutex_);
  int64_t last_push_envstep_ ABSL_GUARDED_BY(mutex_) = -1;
  PeriodicThruputMonitor monitor_ ABSL_GUARDED_BY(mutex_);
};

// The options that the buffers with one ring of rows share: naive, sequence and episode. Their
// Options derive from it. AdvancedReplayBuffer has options of its own, because its clock, metrics,
// selector and default capacity mean something else.
//
// Ownership: a value; shares the metrics and the selector, and `clock` must outlive the buffer.
// Threads:   thread-compatible.
struct RingOptions {
  int64_t capacity_rows = 10000;  // replay_buffer_size of the config
  // replay_buffer_bytes of the config. If set, the capacity is as many rows as fit (RowCapacity),
  // and capacity_rows is ignored.
  std::optional<int64_t> capacity_bytes;
  // Where the rows lie, for data larger than memory; null: in memory. It belongs to one buffer.
  std::shared_ptr<RowFiles> files;
  int64_t nstep = 1;
  double gamma = 0.99;  // discount_factor of the config
  uint64_t seed = 0;
  std::string name = "replay_buffer";  // prefix of errors and metrics; names the random stream
  // Where PeriodicThruputMonitor writes its counts, which are in rows; null: nothing is counted.
  std::shared_ptr<MetricSink> metrics;
  double periodic_thruput_seconds = 60;
  const Clock* clock = Clock::Real();
  // Null: uniform draws. A selector belongs to one buffer.
  std::shared_ptr<ISelector> selector;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_COMPOSED_BUFFER_H_
