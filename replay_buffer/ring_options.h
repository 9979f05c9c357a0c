// The options that the buffers with one ring of rows share: naive, sequence and episode. Their Options derive from
// it. AdvancedReplayBuffer has options of its own, because its clock, metrics, selector and default capacity
// mean something else.
//
// Ownership: a value; shares the metrics and the selector, and `clock` must outlive the buffer.
// Threads:   thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_RING_OPTIONS_H_
#define DING_WORKER_REPLAY_BUFFER_RING_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/selection/selector.h"

namespace ding {

struct RingOptions {
  int64_t capacity_rows = 10000;  // replay_buffer_size of the config
  // replay_buffer_bytes of the config. If set, the capacity is as many rows as fit (RowCapacity), and
  // capacity_rows is ignored.
  std::optional<int64_t> capacity_bytes;
  int64_t nstep = 1;
  double gamma = 0.99;  // discount_factor of the config
  uint64_t seed = 0;
  std::string name = "replay_buffer";  // prefix of errors and metrics; names the random stream
  // Where PeriodicThruputMonitor writes its counts, which are in rows; null: nothing is counted.
  std::shared_ptr<MetricSink> metrics;
  double periodic_thruput_seconds = 60;
  const Clock* clock = Clock::Real();
  // Null: uniform draws. A selector belongs to one buffer.
  std::shared_ptr<ISelector> selector;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_RING_OPTIONS_H_
