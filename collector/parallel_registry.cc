#include "ding_worker/collector/parallel_registry.h"

#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<ParallelCollectorDescriptor>& ParallelCollectorRegistry() {
  static auto* const registry = new Registry<ParallelCollectorDescriptor>("parallel collector");
  return *registry;
}

absl::StatusOr<std::unique_ptr<BaseParallelCollector>> create_parallel_collector(
    const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
    const ParallelCollectorParts& parts, const ComponentDeps& deps) {
  DING_ASSIGN_OR_RETURN(const ParallelCollectorDescriptor descriptor,
                        get_parallel_collector_cls(config));
  DING_RETURN_IF_ERROR(
      Annotate(CheckParams(descriptor.check_params, config), "parallel collector"));
  return CallFactory("parallel collector", config.type(),
                     [&] { return descriptor.create(config, task, parts, deps); });
}

absl::StatusOr<ParallelCollectorDescriptor> get_parallel_collector_cls(
    const ParallelCollectorConfig& config) {
  return ParallelCollectorRegistry().Find(config.type());
}

}  // namespace ding
