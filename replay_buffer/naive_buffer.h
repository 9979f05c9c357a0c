// Buffers of transitions that are drawn uniformly: NaiveReplayBuffer, and ElasticReplayBuffer,
// which draws from its newest rows.
#ifndef DING_WORKER_REPLAY_BUFFER_NAIVE_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_NAIVE_BUFFER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/composed_buffer.h"

namespace ding {

// A ring of transitions that is drawn uniformly: the buffer of DQN and most off-policy algorithms.
//
// Drawn batches have the columns of data/sample_columns.h. replay_unique_id numbers the rows in the
// order of pushing; Clear() does not restart it. SampleOptions::newest and range go by the order of
// pushing. Draws are without replacement unless SampleOptions::replace is set.
//
// Rows may be items (data/items.h) if nstep is 1: a batch then has no next_obs, discount and
// n_step.
//
// Ownership: copies the rows that are pushed.
// Threads:   thread-safe. Rows are chosen under the lock and copied after it, so a draw delays a
//            push by about a microsecond. A snapshot holds the lock while it searches at most 4
//            bytes per row for the ends of episodes; with stacks of frames it also copies 4 bytes
//            per row.
// Errors:    as IBuffer says; all begin with the buffer's name.
//
// Example:
//   NaiveReplayBuffer::Options options;
//   options.capacity_rows = 20000;
//   DING_ASSIGN_OR_RETURN(const auto buffer, NaiveReplayBuffer::Create(options));
//   DING_RETURN_IF_ERROR(buffer->Push(segments, envstep));
//   DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(64, train_iter));
class NaiveReplayBuffer : public ComposedBuffer {
 public:
  struct Options : RingOptions {
    OnRemoved on_removed;  // only for rows that are items
  };

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // Returns kInvalidArgument, with all Problems(), if there are any.
  static absl::StatusOr<std::unique_ptr<NaiveReplayBuffer>> Create(const Options& options);

  // Push() also returns, besides what IBuffer says:
  //   kInvalidArgument    the fields are not those that TransitionReader needs; on_removed is set,
  //                       and the rows are not items; at the first push: not one row fits in
  //                       capacity_bytes
  //   kResourceExhausted  at the first push: the capacity is more than this machine's memory (the
  //                       message shows the sum); later: out of memory

 private:
  explicit NaiveReplayBuffer(const Options& options);
};

// A ring of transitions that draws uniformly from a window of its newest rows. The size of the
// window is a function of the env step: a run can soon forget its first, bad rows, and keep more
// rows as the policy gets better.
//
// The first window is the window of env step 0. Each push sets the window for its
// cur_collector_envstep; a negative value (not known) leaves it unchanged. Rows outside the window
// stay in the ring, and can be drawn again if the window grows. on_removed reports rows that leave
// the ring, not the window. SampleOptions::newest and range apply within the window. Everything
// else is as in NaiveReplayBuffer.
//
// Ownership: copies the rows that are pushed.
// Threads:   thread-safe. Pushing threads call window_rows, one at a time.
// Errors:    as IBuffer; all messages begin with the buffer's name.
//
// Example:
//   ElasticReplayBuffer::Options options;
//   options.window_rows = [](int64_t envstep) { return 1000 + envstep / 2; };
//   DING_ASSIGN_OR_RETURN(const auto buffer, ElasticReplayBuffer::Create(std::move(options)));
class ElasticReplayBuffer : public IBuffer {
 public:
  struct Options {
    NaiveReplayBuffer::Options ring;
    // Maps an env step to the number of rows in the window, at least 1 (DI-engine:
    // set_buffer_size). A window larger than the capacity is the whole ring.
    std::function<int64_t(int64_t)> window_rows;
  };

  // kInvalidArgument: an option of the ring is out of range, or the first window is below 1.
  static absl::StatusOr<std::unique_ptr<ElasticReplayBuffer>> Create(Options options);

  using IBuffer::Push;
  // Also returns kInvalidArgument, and pushes nothing, if the window of `cur_collector_envstep` is
  // below 1.
  absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) override;
  absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                               const SampleOptions& options = {}) override;
  absl::Status Update(const PriorityInfo& info) override;
  void Clear() override;
  absl::Status Close() override;
  // The number of rows in the window.
  int64_t count() const override;
  int64_t push_count() const override;
  std::string lost_rows() const override { return ring_->lost_rows(); }
  StateSnapshot Snapshot() const override;
  absl::Status LoadState(StateReader* reader) override;

  // The current size of the window, which may exceed the number of rows in the buffer.
  int64_t window_rows() const;

 private:
  ElasticReplayBuffer(Options options, std::unique_ptr<NaiveReplayBuffer> ring,
                      int64_t window_rows);

  const std::string name_;
  const std::function<int64_t(int64_t)> window_rows_at_;
  const std::unique_ptr<NaiveReplayBuffer> ring_;
  mutable Mutex mutex_;
  int64_t window_rows_ ABSL_GUARDED_BY(mutex_);
  int64_t pushes_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t window_of_push_ ABSL_GUARDED_BY(mutex_) = 0;  // the latest push that set window_rows_
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_NAIVE_BUFFER_H_
