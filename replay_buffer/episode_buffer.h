// A ring of rows that is drawn as whole episodes, for policies that learn from complete episodes. An
// episode can be drawn from when its end has arrived, terminated or truncated, until its first row is
// evicted. The first row of a stream counts as the beginning of an episode. An episode that lost steps is
// never complete.
//
// A draw of B episodes is a batch of [B * T] rows, where T is the length of the longest one; shorter ones
// are padded. Columns and order are those of SequenceReplayBuffer, and T = rows / B. count() is the number
// of complete episodes. SampleOptions::newest counts episodes, the one with the newest first row first. The
// capacity is in rows: an episode that is longer is never complete.
//
// Ownership: copies the rows that are pushed.
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
    // replay_buffer_bytes of the config. If set, the capacity is as many rows as fit (RowCapacity), and
    // capacity_rows is ignored.
    std::optional<int64_t> capacity_bytes;
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

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);

  // Returns kInvalidArgument, with all of them, if there are any.
  static absl::StatusOr<std::unique_ptr<EpisodeReplayBuffer>> Create(const Options& options);

  // Returns the number of rows of each complete episode, the oldest first.
  std::vector<int64_t> episode_len() const { return SequenceLengths(); }

 private:
  using SequenceReplayBuffer::SequenceReplayBuffer;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_EPISODE_BUFFER_H_
