#include "ding_worker/collector/parallel/zergling_parallel_collector.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<std::unique_ptr<ZerglingParallelCollector>> ZerglingParallelCollector::Create(
    const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
    ComponentDeps deps) {
  deps.name = NameOf(task, deps);
  std::vector<ParallelPlayer> players = {{parts.collect_mode, /*updates=*/true}};
  DING_RETURN_IF_ERROR(ProblemsToStatus(ProblemsOf(options, task, parts, players), deps.name));
  return absl::WrapUnique(new ZerglingParallelCollector(options, std::move(task), parts,
                                                        std::move(deps), std::move(players),
                                                        /*is_game=*/false));
}

}  // namespace ding
