// A ring of transitions, drawn in proportion to their priorities: prioritized experience replay
// (Schaul et al., "Prioritized experience replay", ICLR 2016; proportional variant, section 3.3).
//
//   P(i) = p_i^alpha / sum_k p_k^alpha       a batch: one row of each of B equal strata of the sum
//   weight_i = (P(i) / min_k P(k))^-beta     in (0, 1]; the minimum is over all valid rows
//
// beta goes from its first value to 1 in `anneal_step` draws. A priority that is given is stored
// + 1e-5; a row that comes without one has the largest that Update() was ever given, at first 1.
//
// Drawn batches have the columns of data/sample_columns.h, those of prioritized buffers included:
//   priority           stored with the row when it was drawn
//   use                of a row that comes twice in a batch: n, then n + 1
//   staleness          cur_learner_iter - collect_iter, at least 0; -1 if the rows have no
//                      collect_iter or it is below 0
//   replay_buffer_idx  replay_unique_id modulo the capacity
// A column "priority" (float32[]) of the pushed rows gives their first priorities; nothing is ever
// written into what was pushed.
//
// A row leaves when it is the oldest of a full ring, when it was drawn `max_use` times (at the end
// of that draw), or at the first draw where its staleness is `max_staleness` or more. The latter two
// are retired: their memory goes when the ring comes round, but they are not drawn, not counted, and
// no update brings them back. They go also if the draw that finds them is then refused for want of
// rows.
//
// SampleOptions::newest counts valid rows from the newest. A row whose weight is more than 1/B of
// the sum comes more than once in a batch, else its importance weight were wrong;
// SampleOptions::replace says only that the batch may be larger than the buffer.
//
// Rows may be items (data/items.h), if nstep is 1: a batch then has no next_obs, discount and n_step.
//
// Ownership: copies what it is pushed.
// Threads:   thread-safe. Rows are chosen under the lock and copied after it. A snapshot holds the
//            lock while it copies 8 bytes per row.
// Errors:    as IBuffer says; all begin with the buffer's name.
//
// Example:
//   AdvancedReplayBuffer::Options options;
//   options.capacity_rows = 100000;
//   DING_ASSIGN_OR_RETURN(const auto buffer, AdvancedReplayBuffer::Create(options));
//   DING_RETURN_IF_ERROR(buffer->Push(segments, envstep));
//   DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(64, train_iter));
//   DING_RETURN_IF_ERROR(buffer->Update({new_priorities, ids, slots}));
#ifndef DING_WORKER_REPLAY_BUFFER_ADVANCED_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_ADVANCED_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/held_items.h"
#include "ding_worker/replay_buffer/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/priority_table.h"
#include "ding_worker/replay_buffer/removed_items.h"
#include "ding_worker/replay_buffer/sampled_data_attr_monitor.h"
#include "ding_worker/replay_buffer/staleness_index.h"
#include "ding_worker/replay_buffer/thruput_controller.h"
#include "ding_worker/replay_buffer/transition_reader.h"

namespace ding {

class AdvancedReplayBuffer : public IBuffer {
 public:
  struct Options {
    int64_t capacity_rows = 4096;  // replay_buffer_size of the config
    // replay_buffer_bytes of the config. Set: as many rows as fit in (RowCapacity), whatever
    // capacity_rows is.
    std::optional<int64_t> capacity_bytes;
    int64_t nstep = 1;
    double gamma = 0.99;                   // discount_factor of the config
    double alpha = 0.6;                    // 0: uniform draws
    double beta = 0.4;                     // 0: all importance weights 1
    int64_t anneal_step = 100000;          // draws until beta is 1; 0: it stays
    std::optional<int64_t> max_use;        // not set: no limit
    std::optional<int64_t> max_staleness;  // in learner iterations; not set: no limit
    // A draw without SampleOptions::replace needs this many times its size of valid rows; at least 1.
    double sample_min_limit_ratio = 1;
    // What is refused as too fast; without limits nothing is.
    ThruputController::Options thruput;
    const Clock* clock = Clock::Real();  // of that, and of periodic_thruput_seconds
    // How long a push or draw that would be refused for its rate, or a draw for want of rows, waits
    // for other threads to change that; zero: it is refused at once.
    absl::Duration max_wait = absl::ZeroDuration();
    uint64_t seed = 0;
    std::string name = "replay_buffer";  // stands in errors and names the random stream and metrics
    // Where both monitors write; null: nothing is measured.
    std::shared_ptr<MetricSink> metrics;
    double periodic_thruput_seconds = 60;
    SampledDataAttrMonitor::Options sampled_data_attr;
    OnRemoved on_removed;  // for rows that are items only
  };

  // Since the buffer was made; Clear() and LoadState() leave them.
  struct Counters {
    int64_t retired_by_use = 0;
    int64_t retired_by_staleness = 0;
    int64_t skipped_updates = 0;  // priorities of rows that were gone
  };

  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // kInvalidArgument lists them.
  static absl::StatusOr<std::unique_ptr<AdvancedReplayBuffer>> Create(const Options& options);

  // Beside what IBuffer says:
  //   kInvalidArgument    the fields are not those that TransitionReader needs, "priority" is not
  //                       float32[] or "collect_iter" not int64[]; a priority is NaN, negative or
  //                       infinite: nothing is pushed;
  //                       on_removed is set, and the rows are no items
  //   kUnavailable        more rows per row drawn than Options::thruput allows; nothing is pushed
  //   kResourceExhausted  at the first push: the capacity is more than this machine's memory, with
  //                       the sum; later: out of memory
  absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) override;
  // kFailedPrecondition also if fewer rows per row drawn were pushed than Options::thruput asks for.
  absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                               const SampleOptions& options = {}) override;
  // kInvalidArgument: a priority is NaN, negative or infinite, or the columns differ in length;
  // then nothing changes. Rows that are gone are skipped and counted.
  absl::Status Update(const PriorityInfo& info) override;
  void Clear() override;
  int64_t count() const override;
  int64_t push_count() const override;
  StateSnapshot Snapshot() const override;
  // kInvalidArgument also if what was saved is of another max_use, beta or anneal_step: uses and beta
  // have come about under them. alpha, nstep, gamma and max_staleness are those of this buffer.
  absl::Status LoadState(StateReader* reader) override;

  // Of the next draw.
  double beta() const;
  double max_priority() const;
  Counters counters() const;
  // Entries of the index of rows by age: what max_staleness takes in memory, about 50 bytes each.
  int64_t staleness_runs() const;

 private:
  // Where the columns of draws stand in a batch, and what is read of the rows.
  struct Fields {
    int weight;
    int use;
    int staleness;
    int priority;
    int buffer_idx;
    std::optional<int> collect_iter;  // of the rows
    bool given_priority;
  };
  // All that the first push fixes. Whoever gathers shares the reader.
  struct Contents {
    std::shared_ptr<TransitionReader> reader;
    Fields fields;
    std::unique_ptr<PriorityTable> priorities;
    StalenessIndex staleness;
    std::unique_ptr<HeldItems> held;  // null without on_removed
  };

  explicit AdvancedReplayBuffer(const Options& options);

  absl::StatusOr<std::unique_ptr<Contents>> MakeContents(std::shared_ptr<RowStore> store) const;
  absl::StatusOr<std::unique_ptr<Contents>> ContentsFor(const SegmentBatch& data) const;
  absl::Status PushChecked(const SegmentBatch& data, RemovedItems* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Batch> SampleChecked(int64_t size, int64_t iter, const SampleOptions& options,
                                      RemovedItems* removed) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckSavedOptions(StateReader* reader) const;
  absl::Status LoadChecked(StateReader* reader) ABSL_LOCKS_EXCLUDED(mutex_);
  void IndexStaleness(Contents* contents, int64_t first_id) const;
  static void ForgetRetired(Contents* contents);
  void RetireStale(int64_t iter, RemovedItems* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WaitForChange(const Timer& waited) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitUntilPushAllowed(int64_t rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitUntilDrawAllowed(int64_t size, int64_t iter, const SampleOptions& options,
                                    RemovedItems* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckEnough(int64_t size, const SampleOptions& options) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ChooseRows(int64_t part, const Fields& fields, TransitionDraw* draw, RemovedItems* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t CountLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;                                             // rows were pushed or drawn
  std::unique_ptr<Contents> contents_ ABSL_GUARDED_BY(mutex_);  // null until the first push
  int64_t push_count_ ABSL_GUARDED_BY(mutex_) = 0;
  double beta_ ABSL_GUARDED_BY(mutex_);
  Rng rng_ ABSL_GUARDED_BY(mutex_);
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  ThruputController thruput_ ABSL_GUARDED_BY(mutex_);
  int64_t last_push_envstep_ ABSL_GUARDED_BY(mutex_) = -1;
  PeriodicThruputMonitor thruput_monitor_ ABSL_GUARDED_BY(mutex_);
  std::optional<SampledDataAttrMonitor> attr_monitor_;  // has a lock of its own
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ADVANCED_BUFFER_H_
