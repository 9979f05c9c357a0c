// Parallel collectors by name; and the options that their factories read from the config.
#ifndef DING_WORKER_COLLECTOR_PARALLEL_REGISTRY_H_
#define DING_WORKER_COLLECTOR_PARALLEL_REGISTRY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/module.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

// A type of parallel collector (base/module.h).
struct ParallelCollectorDescriptor
    : Module<std::unique_ptr<BaseParallelCollector>, ParallelCollectorConfig,
             const ParallelCollectorTask&, const ParallelCollectorParts&, const ComponentDeps&> {
  bool plays_games = false;  // whether it collects in two-player games; else in single-player envs
};
inline ModuleRegistry<ParallelCollectorDescriptor>& ParallelCollectorRegistry() {
  static auto* const registry =
      new ModuleRegistry<ParallelCollectorDescriptor>("parallel collector");
  return *registry;
}

// Make the collector that the config names, or find its type. Errors are those of
// ModuleRegistry::Create(); kInvalidArgument lists all problems of the config and the parts.
inline absl::StatusOr<std::unique_ptr<BaseParallelCollector>> create_parallel_collector(
    const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
    const ParallelCollectorParts& parts, const ComponentDeps& deps) {
  return ParallelCollectorRegistry().Create(config, task, parts, deps);
}
inline absl::StatusOr<ParallelCollectorDescriptor> get_parallel_collector_cls(
    const ParallelCollectorConfig& config) {
  return ParallelCollectorRegistry().Find(config.type());
}

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
