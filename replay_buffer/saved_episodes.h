// The episodes in the saved state of a replay buffer: what a run has collected, to learn from it offline.
//
// Rows that follow each other in the buffer are an episode. Where the rest of an episode is not in the buffer, because it went on after
// the rows were saved or because steps were lost, it counts as truncated: the value of the observation behind the last row is part of
// its returns. The first rows of the oldest episodes may have been evicted.
//
// Threads: thread-safe (pure function).
#ifndef DING_WORKER_REPLAY_BUFFER_SAVED_EPISODES_H_
#define DING_WORKER_REPLAY_BUFFER_SAVED_EPISODES_H_

#include "absl/status/statusor.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"

namespace ding {

// Reads what IBuffer::Snapshot() of a buffer of any type has written, with one segment per episode, in the order in which the
// episodes began. Stream i is episode i from step 0 on.
//   kNotFound          it is not the state of a replay buffer
//   kInvalidArgument   the buffer was empty, or it is not what a buffer writes
//   kResourceExhausted out of memory
absl::StatusOr<SegmentBatch> ReadSavedEpisodes(StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SAVED_EPISODES_H_
