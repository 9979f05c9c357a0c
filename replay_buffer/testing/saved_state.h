// What a buffer has saved, in memory, for tests: to compare, to load, and to damage.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_SAVED_STATE_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_SAVED_STATE_H_

#include "absl/status/status.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

// A failure to save is one of the test.
TensorMap Saved(const IBuffer& buffer);
absl::Status LoadFrom(IBuffer* buffer, const TensorMap& tensors);

bool SameBytes(const TensorMap& a, const TensorMap& b);
bool SameBytes(const Batch& a, const Batch& b);

// A copy that shares nothing, so that a test may damage it.
TensorMap CloneAll(const TensorMap& from);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_SAVED_STATE_H_
