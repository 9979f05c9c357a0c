// A ring of transitions that is drawn uniformly: the buffer of DQN and most off-policy algorithms.
//
// Drawn batches have the columns of data/sample_columns.h. replay_unique_id numbers the rows in the order of
// pushing; Clear() does not restart it. SampleOptions::newest and range go by the order of pushing. Draws
// are without replacement unless SampleOptions::replace is set.
//
// Rows may be items (data/items.h) if nstep is 1: a batch then has no next_obs, discount and n_step.
//
// Ownership: copies the rows that are pushed.
// Threads:   thread-safe. Rows are chosen under the lock and copied after it, so a draw delays a push by
//            about a microsecond, not by the time that copying the batch takes. A snapshot holds the lock
//            while it searches the links, at most 4 bytes per row, for the ends of episodes; with stacks of
//            frames it also copies 4 bytes per row.
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

#include "absl/status/statusor.h"
#include "ding_worker/replay_buffer/composed_buffer.h"
#include "ding_worker/replay_buffer/items/removed_items.h"
#include "ding_worker/replay_buffer/ring_options.h"

namespace ding {

class NaiveReplayBuffer : public ComposedBuffer {
 public:
  struct Options : RingOptions {
    OnRemoved on_removed;  // only for rows that are items
  };

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // Returns kInvalidArgument, with all of them, if there are any.
  static absl::StatusOr<std::unique_ptr<NaiveReplayBuffer>> Create(const Options& options);

  // Push() also returns, besides what IBuffer says:
  //   kInvalidArgument    the fields are not those that TransitionReader needs; on_removed is set, and
  //                       the rows are not items; at the first push: not one row fits in capacity_bytes
  //   kResourceExhausted  at the first push: the capacity is more than this machine's memory (the message
  //                       shows the sum); later: out of memory

 private:
  explicit NaiveReplayBuffer(const Options& options);
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_NAIVE_BUFFER_H_
