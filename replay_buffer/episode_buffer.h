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
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/replay_buffer/ring_options.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"

namespace ding {

class EpisodeReplayBuffer : public SequenceReplayBuffer {
 public:
  struct Options : RingOptions {};  // has no options of its own

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
