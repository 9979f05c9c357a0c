// Saves the content of a buffer to a file and loads it, to carry data from one run to another or to
// provide demonstrations. ReadSavedEpisodes() reads saved data without a buffer. (The checkpoint of
// a run already contains its buffer.)
//
// Files are safetensors: Python can read them, and nothing in them is executed. Only valid rows are
// written. A checksum of the whole file follows them, so a file that was truncated or altered is
// refused. If the rows of the buffer lie in files (RingOptions::files), the saved file has the
// names of these files instead of the rows.
//
// Threads: thread-safe. Rows that are pushed while a buffer is saved are not in the file.
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

// Replaces the file at `path` once everything is written. After an error the old file is unchanged.
// Returns the errors of WriteSafetensors().
absl::Status SaveData(const IBuffer& buffer, const std::string& path);

// Replaces the content of `buffer`. After an error the buffer is unchanged.
//   kNotFound            there is no such file
//   kDataLoss            the file is truncated or altered, or is not a safetensors file
//   kFailedPrecondition  a later version wrote the file
//   kInvalidArgument     the file has no checksum, or does not hold the state of a buffer of this
//                        type, capacity and spec
//   kUnimplemented       the file has an element type that is not supported
absl::Status LoadData(IBuffer* buffer, const std::string& path);

// Reads the episodes from the state that IBuffer::Snapshot() of any type of buffer has written, for
// offline learning. Returns one segment per episode, in the order in which the episodes began.
// Stream i is episode i, with steps from 0 on.
//
// Consecutive rows of a stream are one episode. If the rest of an episode is not in the buffer,
// because the episode went on after saving or because steps were lost, it counts as truncated:
// returns then bootstrap from the observation after the last row. The first rows of the oldest
// episodes may be missing, because they were evicted.
//   kNotFound          the state is not from a replay buffer
//   kInvalidArgument   the buffer was empty, or the state is not valid
//   kResourceExhausted out of memory
absl::StatusOr<SegmentBatch> ReadSavedEpisodes(StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_
