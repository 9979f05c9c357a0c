// A ring of transitions, drawn uniformly from its newest rows: as many as a function of the env
// steps says. So a run can forget its first, bad rows soon and keep more as it gets better.
//
// The window begins with that of env step 0 and is computed anew at each push, from its
// cur_collector_envstep; a negative one (not known) leaves it. Rows outside the window stay in the
// ring, and are drawn again if it grows; on_removed tells what leaves the ring, not the window.
// SampleOptions::newest can only make a draw's part smaller. The rest is as in NaiveReplayBuffer.
//
// Ownership: copies what it is pushed.
// Threads:   thread-safe. The function is called by whoever pushes, one at a time.
// Errors:    as IBuffer says; all begin with the buffer's name.
//
// Example:
//   ElasticReplayBuffer::Options options;
//   options.window_rows = [](int64_t envstep) { return 1000 + envstep / 2; };
//   DING_ASSIGN_OR_RETURN(const auto buffer, ElasticReplayBuffer::Create(std::move(options)));
#ifndef DING_WORKER_REPLAY_BUFFER_ELASTIC_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_ELASTIC_BUFFER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace ding {

class ElasticReplayBuffer : public IBuffer {
 public:
  struct Options {
    NaiveReplayBuffer::Options ring;
    // Env step to window, at least 1; set_buffer_size of the original. More than the capacity: all.
    std::function<int64_t(int64_t)> window_rows;
  };

  // kInvalidArgument: an option of the ring is out of range, or the first window is below 1.
  static absl::StatusOr<std::unique_ptr<ElasticReplayBuffer>> Create(Options options);

  // kInvalidArgument also if the window of `cur_collector_envstep` is below 1; nothing is pushed.
  absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) override;
  absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                               const SampleOptions& options = {}) override;
  absl::Status Update(const PriorityInfo& info) override;
  void Clear() override;
  // Rows in the window.
  int64_t count() const override;
  int64_t push_count() const override;
  StateSnapshot Snapshot() const override;
  absl::Status LoadState(StateReader* reader) override;

  // Of now: the rows that are drawn from, if there are so many.
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
  int64_t window_of_push_ ABSL_GUARDED_BY(mutex_) = 0;  // the latest to have set window_rows_
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ELASTIC_BUFFER_H_
