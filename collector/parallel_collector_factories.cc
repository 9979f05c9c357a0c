// Registers the parallel collectors "zergling" and "marine".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collectors.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/metrics/sink.h"

namespace ding {
namespace {

template <typename Collector>
ParallelCollectorDescriptor Describe(const char* name, bool plays_games) {
  ParallelCollectorDescriptor descriptor;
  descriptor.name = name;
  descriptor.default_config.set_type(name);
  descriptor.plays_games = plays_games;
  descriptor.check_params = TakesNoParams;
  descriptor.create =
      [](const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
         const ParallelCollectorParts& parts,
         const ComponentDeps& deps) -> absl::StatusOr<std::unique_ptr<BaseParallelCollector>> {
    return Collector::Create(ReadParallelCollectorOptions(config), task, parts, deps);
  };
  return descriptor;
}

DING_REGISTER(ParallelCollectorRegistry(), "zergling",
              Describe<ZerglingParallelCollector>("zergling", /*plays_games=*/false),
              "plays with one policy: envs for one player, and games against itself");

DING_REGISTER(ParallelCollectorRegistry(), "marine",
              Describe<MarineParallelCollector>("marine", /*plays_games=*/true),
              "plays games of two, one policy against another or itself, for a league");

}  // namespace
}  // namespace ding
