// A ring of rows, drawn as whole episodes: for policies that learn from complete ones. An episode
// can be drawn when its end has come, whether terminated or truncated, and until its first row is
// evicted; the first row of a stream begins one, and one that lost steps is not whole.
//
// A draw of B episodes is a batch of [B * T] rows, T being the longest of those drawn, and the rest
// padding, with the columns and the order of SequenceReplayBuffer: T = rows / B. count() is the
// number of complete episodes, SampleOptions::newest the newest of them, by their first rows. The
// capacity is in rows: a longer episode is never complete.
//
// Ownership: copies what it is pushed.
// Threads:   thread-safe, as SequenceReplayBuffer.
// Errors:    as IBuffer says; all begin with the buffer's name.
#ifndef DING_WORKER_REPLAY_BUFFER_EPISODE_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_EPISODE_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/selector.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"

namespace ding {

class EpisodeReplayBuffer : public SequenceReplayBuffer {
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
    // Where PeriodicThruputMonitor writes, all in rows; null: nothing is counted.
    std::shared_ptr<MetricSink> metrics;
    double periodic_thruput_seconds = 60;
    const Clock* clock = Clock::Real();
    // Null: uniform. Belongs to one buffer.
    std::shared_ptr<ISelector> selector;
  };

  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);

  // kInvalidArgument lists them.
  static absl::StatusOr<std::unique_ptr<EpisodeReplayBuffer>> Create(const Options& options);

  // Rows of each complete episode, oldest first.
  std::vector<int64_t> episode_len() const { return SequenceLengths(); }

 private:
  using SequenceReplayBuffer::SequenceReplayBuffer;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_EPISODE_BUFFER_H_
