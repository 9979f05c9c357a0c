// Reads the options of parallel collectors from their config, for factories.
//
// Threads: thread-safe.
//
// Example:
//   return MyCollector::Create(ReadParallelCollectorOptions(config), task, parts, deps);
#ifndef DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_CONFIG_H_
#define DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_CONFIG_H_

#include "absl/time/time.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"

namespace ding {

inline ParallelCollectorCore::Options ReadParallelCollectorOptions(
    const ParallelCollectorConfig& config) {
  ParallelCollectorCore::Options options;
  options.print_freq = config.print_freq();
  options.update_policy_period = absl::Seconds(config.update_policy_second());
  options.max_abnormal = config.max_abnormal();
  options.reward_shaping = config.reward_shaping();
  return options;
}

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_CONFIG_H_
