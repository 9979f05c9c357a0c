// Makes the collector of a collecting task from an experiment config, with its envs and its
// policies.
//
// Threads: the factory may be called by any thread, one at a time.
#ifndef DING_WORKER_WORKER_TASKS_CONFIGURED_COLLECTOR_H_
#define DING_WORKER_WORKER_TASKS_CONFIGURED_COLLECTOR_H_

#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// For collector processes. `deps` are metrics, clock and exp_dir of the process; `place` is its
// number among them (Welcome.place).
TaskCollectorFactory MakeTaskCollectorFactory(const ExperimentConfig& config,
                                              const ComponentDeps& deps, int place = 0);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_CONFIGURED_COLLECTOR_H_
