// A ring of rows that is drawn as whole episodes, for policies that learn from complete episodes. An
// episode can be drawn from when its end has arrived, terminated or truncated, until its first row is
// evicted. The first row of a stream counts as the beginning of an episode. An episode that lost steps is
// never complete.
//
// A draw of B episodes is a batch of [B * T] rows, where T is the length of the longest one; shorter ones
// are padded. Columns and order are those of SequenceReplayBuffer, and T = rows / B. count() is the number
// of complete episodes. SampleOptions::newest and range count episodes, whose age is that of their first row. The
// capacity is in rows: an episode that is longer is never complete.
//
// Rows may be items (data/items.h), as a parallel run has: each item then stands for a whole episode of
// `length` rows, which lie elsewhere. A draw is a batch of items, and count() their number. A capacity in rows
// is that of the episodes: as many of the newest are kept as have so many rows together. A capacity in bytes
// is that of the items.
//
// Ownership: copies the rows that are pushed.
// Threads:   thread-safe, as SequenceReplayBuffer.
// Errors:    as IBuffer says; all begin with the buffer's name.
#ifndef DING_WORKER_REPLAY_BUFFER_EPISODE_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_EPISODE_BUFFER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/replay_buffer/items/removed_items.h"
#include "ding_worker/replay_buffer/ring_options.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"

namespace ding {

class EpisodeReplayBuffer : public SequenceReplayBuffer {
 public:
  struct Options : RingOptions {
    OnRemoved on_removed;  // only for rows that are items
  };

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);

  // Returns kInvalidArgument, with all of them, if there are any.
  static absl::StatusOr<std::unique_ptr<EpisodeReplayBuffer>> Create(const Options& options);

  // Push() returns kInvalidArgument if on_removed is set and the rows are not items, or if an item is an episode
  // without rows.

  // Returns the number of rows of each complete episode, the oldest first.
  std::vector<int64_t> episode_len() const { return SequenceLengths(); }

 private:
  using SequenceReplayBuffer::SequenceReplayBuffer;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_EPISODE_BUFFER_H_
