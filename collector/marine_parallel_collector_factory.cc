// Registers MarineParallelCollector as "marine". Each collector has such a file of its own, so that a program links
// only those that it uses.
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/marine_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_config.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/metrics/component.h"

namespace ding {
namespace {

constexpr char kName[] = "marine";

absl::StatusOr<std::unique_ptr<BaseParallelCollector>> CreateMarineParallelCollector(
    const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
    const ParallelCollectorParts& parts, const ComponentDeps& deps) {
  return MarineParallelCollector::Create(ReadParallelCollectorOptions(config), task, parts, deps);
}

ParallelCollectorDescriptor Descriptor() {
  ParallelCollectorDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.plays_games = true;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateMarineParallelCollector;
  return descriptor;
}

DING_REGISTER(ParallelCollectorRegistry(), kName, Descriptor(),
              "plays games of two, one policy against another or itself, for a league");

}  // namespace
}  // namespace ding
