// A ring of transitions, drawn uniformly: the buffer of DQN and most off-policy algorithms.
//
// Drawn batches have the columns of data/sample_columns.h; replay_unique_id is the row's number in
// the order of pushing, going on over Clear(). SampleOptions::newest counts from the newest row,
// wherever the ring stands. Draws are uniform over rows, without replacement unless asked.
//
// Rows may be items (data/items.h), if nstep is 1: a batch then has no next_obs, discount and n_step.
//
// Ownership: copies what it is pushed.
// Threads:   thread-safe. Rows are chosen under the lock and copied after it: drawing delays
//            pushing by a microsecond, not by a batch. A snapshot holds the lock while it
//            looks for the ends of episodes, among 4 bytes per row at most; with stacks of frames
//            it copies 4 more.
// Errors:    as IBuffer says; all begin with the buffer's name.
//
// Example:
//   NaiveReplayBuffer::Options options;
//   options.capacity_rows = 20000;
//   DING_ASSIGN_OR_RETURN(const auto buffer, NaiveReplayBuffer::Create(options));
//   DING_RETURN_IF_ERROR(buffer->Push(segments, envstep));
//   DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(64, train_iter));
#ifndef DING_WORKER_REPLAY_BUFFER_NAIVE_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_NAIVE_BUFFER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/held_items.h"
#include "ding_worker/replay_buffer/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/removed_items.h"
#include "ding_worker/replay_buffer/row_store.h"
#include "ding_worker/replay_buffer/transition_reader.h"
#include "ding_worker/replay_buffer/uniform_draw.h"

namespace ding {

class NaiveReplayBuffer : public IBuffer {
 public:
  struct Options {
    int64_t capacity_rows = 10000;  // replay_buffer_size of the config
    // replay_buffer_bytes of the config. Set: as many rows as fit in (RowCapacity), whatever
    // capacity_rows is.
    std::optional<int64_t> capacity_bytes;
    int64_t nstep = 1;
    double gamma = 0.99;  // discount_factor of the config
    uint64_t seed = 0;
    std::string name = "replay_buffer";  // stands in errors and names the random stream and metrics
    // Where PeriodicThruputMonitor writes; null: nothing is counted.
    std::shared_ptr<MetricSink> metrics;
    double periodic_thruput_seconds = 60;
    const Clock* clock = Clock::Real();
    OnRemoved on_removed;  // for rows that are items only
  };

  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // kInvalidArgument lists them.
  static absl::StatusOr<std::unique_ptr<NaiveReplayBuffer>> Create(const Options& options);

  // Beside what IBuffer says:
  //   kInvalidArgument    the fields are not those that TransitionReader needs; on_removed is set,
  //                       and the rows are no items; at the first push: not one row fits in
  //                       capacity_bytes
  //   kResourceExhausted  at the first push: the capacity is more than this machine's memory, with
  //                       the sum; later: out of memory
  absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) override;
  absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                               const SampleOptions& options = {}) override;
  absl::Status Update(const PriorityInfo& info) override;
  void Clear() override;
  int64_t count() const override;
  int64_t push_count() const override;
  StateSnapshot Snapshot() const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  explicit NaiveReplayBuffer(const Options& options);

  absl::StatusOr<std::shared_ptr<TransitionReader>> MakeReader(const SegmentBatch& data) const;
  absl::StatusOr<std::unique_ptr<HeldItems>> MakeHeld(const RowStore& store) const;
  absl::Status PushChecked(const SegmentBatch& data, RemovedItems* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LoadChecked(StateReader* reader) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckDraw(int64_t size, const SampleOptions& options) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DrawIds(const SampleOptions& options, absl::Span<int64_t> ids)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t CountLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t PartLocked(const SampleOptions& options) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  // Null until the first push fixes the spec. Whoever gathers shares it.
  std::shared_ptr<TransitionReader> reader_ ABSL_GUARDED_BY(mutex_);
  int64_t push_count_ ABSL_GUARDED_BY(mutex_) = 0;
  UniformDraw draw_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HeldItems> held_ ABSL_GUARDED_BY(mutex_);  // null without on_removed
  PeriodicThruputMonitor monitor_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_NAIVE_BUFFER_H_
