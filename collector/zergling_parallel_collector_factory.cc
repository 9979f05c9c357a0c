// Registers ZerglingParallelCollector as "zergling".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_config.h"
#include "ding_worker/collector/parallel/zergling_parallel_collector.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/metrics/component.h"

namespace ding {
namespace {

constexpr char kName[] = "zergling";

absl::StatusOr<std::unique_ptr<BaseParallelCollector>> CreateZerglingParallelCollector(
    const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
    const ParallelCollectorParts& parts, const ComponentDeps& deps) {
  return ZerglingParallelCollector::Create(ReadParallelCollectorOptions(config), task, parts, deps);
}

ParallelCollectorDescriptor Descriptor() {
  ParallelCollectorDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateZerglingParallelCollector;
  return descriptor;
}

DING_REGISTER(ParallelCollectorRegistry(), kName, Descriptor(),
              "plays with one policy: envs for one player, and games against itself");

}  // namespace
}  // namespace ding
