// Parallel collectors by name; and the options that their factories read from the config.
#ifndef DING_WORKER_COLLECTOR_PARALLEL_REGISTRY_H_
#define DING_WORKER_COLLECTOR_PARALLEL_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

// A type of parallel collector, returned by get_parallel_collector_cls().
struct ParallelCollectorDescriptor {
  std::string name;
  ParallelCollectorConfig default_config;
  bool plays_games = false;  // whether it collects in two-player games; else in single-player envs
  // Checks config.params before a run begins and before `create` is called; if it is empty, only
  // `create` decides (base/params.h).
  ParamsCheck check_params;
  std::function<absl::StatusOr<std::unique_ptr<BaseParallelCollector>>(
      const ParallelCollectorConfig&, const ParallelCollectorTask&, const ParallelCollectorParts&,
      const ComponentDeps&)>
      create;
};
Registry<ParallelCollectorDescriptor>& ParallelCollectorRegistry();

// kNotFound lists the linked names; kInvalidArgument says why the type refuses config.params, or
// else lists all problems of the config and the parts.
absl::StatusOr<std::unique_ptr<BaseParallelCollector>> create_parallel_collector(
    const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
    const ParallelCollectorParts& parts, const ComponentDeps& deps);
absl::StatusOr<ParallelCollectorDescriptor> get_parallel_collector_cls(
    const ParallelCollectorConfig& config);

// Reads the options of parallel collectors from their config, for factories.
//
// Example:
//   return MyCollector::Create(ReadParallelCollectorOptions(config), task, parts, deps);
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

#endif  // DING_WORKER_COLLECTOR_PARALLEL_REGISTRY_H_
