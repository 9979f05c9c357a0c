// Saves the content of a buffer to a file and loads it, to carry data from one run to another and
// for demonstration data; ReadSavedEpisodes() reads it without a buffer. (A checkpoint of a run
// holds its buffer as a component of its own.)
//
// Files are safetensors: Python can read them, and nothing in them is executed. Only valid rows are
// written, as a stream, followed by a checksum of everything, so that a file that was cut off or
// altered is refused. For a buffer whose rows lie in files (RingOptions::files), the file names these
// instead of holding the rows.
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

// Reads the episodes in what IBuffer::Snapshot() of a buffer of any type has written, to learn from
// them offline: one segment per episode, in the order in which the episodes began. Stream i is
// episode i from step 0 on.
//
// Rows that follow each other in the buffer are an episode. Where the rest of an episode is not in
// the buffer, because it went on after the rows were saved or because steps were lost, it counts as
// truncated: the value of the observation behind the last row is part of its returns. The first
// rows of the oldest episodes may have been evicted.
//   kNotFound          it is not the state of a replay buffer
//   kInvalidArgument   the buffer was empty, or it is not what a buffer writes
//   kResourceExhausted out of memory
absl::StatusOr<SegmentBatch> ReadSavedEpisodes(StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_
