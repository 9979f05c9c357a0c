// Makes the parts with which each process of a parallel run works from an experiment config.
//
// Threads: the factories may be called by any thread, one at a time.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_SETUP_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_SETUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns one sentence for each thing in the config that a parallel run cannot do, or not as it is
// set.
std::vector<std::string> FindParallelProblems(const ExperimentConfig& config);

// Whether the learner processes of this program can learn together as the config wants.
absl::Status CheckCanGroupLearners(const ExperimentConfig& config);

// A digest that is equal for two configs if their runs are the same.
std::string ConfigDigest(const ExperimentConfig& config);

// For collector processes. `deps` are metrics, clock and exp_dir of the process.
TaskCollectorFactory MakeTaskCollectorFactory(const ExperimentConfig& config,
                                              const ComponentDeps& deps);

// For learner processes: makes a learner that saves its checkpoints below deps.exp_dir, and resumes
// from them if its task says so.
TaskLearnerFactory MakeTaskLearnerFactory(const ExperimentConfig& config,
                                          const ComponentDeps& deps);
CommLearnerOptions MakeCommLearnerOptions(const ExperimentConfig& config);

// The parts of the coordinator's process.
struct CoordinatorParts {
  std::unique_ptr<Policy> policy;  // with its command mode
  std::unique_ptr<Coordinator> coordinator;
};
// `store`, `sender` and `journal` (which may be null) must outlive the result. `goes_on_after_stop`
// is that of Coordinator::Options.
absl::StatusOr<CoordinatorParts> MakeCoordinator(const ExperimentConfig& config,
                                                 const std::string& run, const ComponentDeps& deps,
                                                 Store* store, CoordinatorSender* sender,
                                                 Journal* journal, bool goes_on_after_stop = false);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_SETUP_H_
