// The saved state of a buffer in memory, which tests compare, load and damage.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_SAVED_STATE_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_SAVED_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

// Returns the saved state of `buffer`. A failure to save fails the test.
TensorMap Saved(const IBuffer& buffer);
absl::Status LoadFrom(IBuffer* buffer, const TensorMap& tensors);

bool SameBytes(const TensorMap& a, const TensorMap& b);
bool SameBytes(const Batch& a, const Batch& b);

// Returns a copy that shares no memory, so that a test may damage it.
TensorMap CloneAll(const TensorMap& from);

// The function with which a test that many types of buffer must pass makes each of them.
struct BufferSettings {
  int64_t capacity_rows = 64;
  int64_t nstep = 1;
  double gamma = 0.9;
  uint64_t seed = 1;
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
  std::string disk_folder;  // of a disk tier; "": in memory
};

// Makes an empty buffer.
using BufferMaker = std::function<std::unique_ptr<IBuffer>(const BufferSettings&)>;

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_SAVED_STATE_H_
