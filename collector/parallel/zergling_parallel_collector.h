// The parallel collector of one policy: in envs for one player, or by self-play in all seats of a game.
// parallel_collector_core.h describes how it plays and which rows it sends.
//
// Self-play is here, and not in "marine", since it has what this collector has: one policy, all of whose rows are
// training data. "marine" has two policies, of which one may be an opponent, a seat that changes from task to
// task, and results of games for the payoff of a league.
//
// Ownership, threads: as BaseParallelCollector.
//
// Example:
//   ParallelCollectorParts parts = {&envs, policy->collect_mode(), policy->eval_mode(), &link, 10};
//   DING_ASSIGN_OR_RETURN(auto collector,
//                         ZerglingParallelCollector::Create({}, task, parts, deps));
//   DING_RETURN_IF_ERROR(collector->Run());
//   const CollectorFinishInfo info = collector->GetFinishInfo();
#ifndef DING_WORKER_COLLECTOR_PARALLEL_ZERGLING_PARALLEL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_PARALLEL_ZERGLING_PARALLEL_COLLECTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/metrics/component.h"

namespace ding {

class ZerglingParallelCollector : public ParallelCollectorCore {
 public:
  // The default name is "collector" or "evaluator".
  //   kInvalidArgument  lists all problems of options and parts, such as a policy with neither n_sample nor
  //                     n_episode
  static absl::StatusOr<std::unique_ptr<ZerglingParallelCollector>> Create(
      const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
      ComponentDeps deps);

 private:
  using ParallelCollectorCore::ParallelCollectorCore;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_ZERGLING_PARALLEL_COLLECTOR_H_
