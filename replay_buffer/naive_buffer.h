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
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/composed_buffer.h"
#include "ding_worker/replay_buffer/removed_items.h"
#include "ding_worker/replay_buffer/selector.h"

namespace ding {

class NaiveReplayBuffer : public ComposedBuffer {
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
    // Null: uniform. Belongs to one buffer.
    std::shared_ptr<ISelector> selector;
  };

  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // kInvalidArgument lists them.
  static absl::StatusOr<std::unique_ptr<NaiveReplayBuffer>> Create(const Options& options);

  // Push(), beside what IBuffer says:
  //   kInvalidArgument    the fields are not those that TransitionReader needs; on_removed is set,
  //                       and the rows are no items; at the first push: not one row fits in
  //                       capacity_bytes
  //   kResourceExhausted  at the first push: the capacity is more than this machine's memory, with
  //                       the sum; later: out of memory

 private:
  explicit NaiveReplayBuffer(const Options& options);
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_NAIVE_BUFFER_H_
