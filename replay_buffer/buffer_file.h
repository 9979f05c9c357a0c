// Saves the content of a buffer to a file and loads it, to carry data from one run to another and
// for demonstration data. (A checkpoint of a run holds its buffer as a component of its own.)
//
// Files are safetensors: Python can read them, and nothing in them is executed. Only valid rows are
// written, as a stream, followed by a checksum of everything, so that a file that was cut off or
// altered is refused.
//
// Threads: thread-safe. Rows that are pushed while a buffer is saved are not in the file.
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_

#include <string>

#include "absl/status/status.h"
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

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_
