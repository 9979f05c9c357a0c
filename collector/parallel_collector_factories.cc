// Registers the parallel collectors "zergling" and "marine".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collectors.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/metrics/sink.h"

namespace ding {
namespace {

template <typename Collector>
absl::StatusOr<std::unique_ptr<BaseParallelCollector>> Create(const ParallelCollectorConfig& config,
                                                              const NoParams& /*params*/,
                                                              const ParallelCollectorTask& task,
                                                              const ParallelCollectorParts& parts,
                                                              const ComponentDeps& deps) {
  return Collector::Create(ReadParallelCollectorOptions(config), task, parts, deps);
}

DING_REGISTER(ParallelCollectorRegistry(), "zergling",
              ParallelCollectorDescriptor{Create<ZerglingParallelCollector>},
              "plays with one policy: envs for one player, and games against itself");

DING_REGISTER(ParallelCollectorRegistry(), "marine",
              (ParallelCollectorDescriptor{Create<MarineParallelCollector>, /*plays_games=*/true}),
              "plays games of two, one policy against another or itself, for a league");

}  // namespace
}  // namespace ding
