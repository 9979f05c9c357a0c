// The content of a buffer in a file: to carry data from one run to another, and for demonstration
// data. (A checkpoint of a run holds its buffer as a component of its own.)
//
// Files are safetensors: readable from Python, and nothing in them is executed. Only valid rows are
// written, streaming, and last the checksum of all of it: whatever was cut off or altered is refused.
//
// Threads: thread-safe. What is pushed while a buffer is saved is not in the file.
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

// Replaces what is at `path` when all is written, and leaves it if anything fails; errors as of
// WriteSafetensors.
absl::Status SaveData(const IBuffer& buffer, const std::string& path);

// Replaces the content of `buffer`; whatever fails, it stays as it was.
//   kNotFound            no such file
//   kDataLoss            truncated or altered, or not such a file
//   kFailedPrecondition  written by a later version
//   kInvalidArgument     not the state of a buffer of this type, capacity and spec
absl::Status LoadData(IBuffer* buffer, const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_FILE_H_
