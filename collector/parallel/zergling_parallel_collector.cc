#include "ding_worker/collector/parallel/zergling_parallel_collector.h"

#include <utility>

#include "absl/memory/memory.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<std::unique_ptr<ZerglingParallelCollector>> ZerglingParallelCollector::Create(
    const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
    ComponentDeps deps) {
  DING_ASSIGN_OR_RETURN(Setup setup, Prepare(options, std::move(task), parts, std::move(deps),
                                             {{parts.collect_mode, /*updates=*/true}}));
  return absl::WrapUnique(new ZerglingParallelCollector(std::move(setup)));
}

}  // namespace ding
