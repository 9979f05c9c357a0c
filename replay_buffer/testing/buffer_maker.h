// The function with which a test that many types of buffer must pass makes each of them.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_MAKER_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_MAKER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

struct BufferSettings {
  int64_t capacity_rows = 64;
  int64_t nstep = 1;
  double gamma = 0.9;
  uint64_t seed = 1;
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
};

// Makes an empty buffer.
using BufferMaker = std::function<std::unique_ptr<IBuffer>(const BufferSettings&)>;

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_MAKER_H_
