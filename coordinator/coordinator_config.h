// A coordinator's options, from its config.
#ifndef DING_WORKER_COORDINATOR_COORDINATOR_CONFIG_H_
#define DING_WORKER_COORDINATOR_COORDINATOR_CONFIG_H_

#include "absl/time/time.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/coordinator.pb.h"

namespace ding {

// Those that are in the config; name and budgets of the run come from its program.
// Coordinator::Problems() checks them.
inline void ReadCoordinatorOptions(const CoordinatorConfig& config, Coordinator::Options* options) {
  options->collector_task_timeout = absl::Seconds(config.collector_task_timeout());
  options->learner_task_timeout = absl::Seconds(config.learner_task_timeout());
  options->collectors = config.collectors();
  options->max_collectors = config.max_collectors();
  options->max_task_failures = config.max_task_failures();
}

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COORDINATOR_CONFIG_H_
