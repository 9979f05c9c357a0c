// Makes the coordinator of a parallel run from an experiment config.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_COORDINATION_PARALLEL_SETUP_H_
#define DING_WORKER_WORKER_COORDINATION_PARALLEL_SETUP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// A digest that is equal for two configs if their runs are the same.
std::string ConfigDigest(const ExperimentConfig& config);

// The parts of the coordinator's process.
struct CoordinatorParts {
  std::unique_ptr<Policy> policy;    // with its command mode
  std::shared_ptr<Policy> opponent;  // null: there is none
  std::unique_ptr<Coordinator> coordinator;
};
// `store`, `sender` and `journal` (which may be null) must outlive the result. `goes_on_after_stop`
// has the meaning of Coordinator::Options::goes_on_after_stop.
absl::StatusOr<CoordinatorParts> MakeCoordinator(const ExperimentConfig& config,
                                                 const std::string& run, const ComponentDeps& deps,
                                                 Store* store, CoordinatorSender* sender,
                                                 Journal* journal, bool goes_on_after_stop = false);

}  // namespace ding

#endif  // DING_WORKER_WORKER_COORDINATION_PARALLEL_SETUP_H_
