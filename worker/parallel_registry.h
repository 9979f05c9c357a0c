// The facade of parallel runs, beside worker/registry.h: every registry that only they use and the
// functions that make modules from their config, in one include.
//
//   create_parallel_collector, get_parallel_collector_cls    collector/parallel_registry.h
//   create_parallel_commander, get_parallel_commander_cls    coordinator/commander_registry.h
//   create_comm_collector                        collector/comm/comm_collector_registry.h
//   create_comm_learner                          learner/comm/comm_learner_registry.h
//   create_store                                 interaction/store/store_registry.h
//
// What can be made is what is linked: a program lists the factory targets that it wants, or
// //worker:parallel_modules. A serial program has none of this.
#ifndef DING_WORKER_WORKER_PARALLEL_REGISTRY_H_
#define DING_WORKER_WORKER_PARALLEL_REGISTRY_H_

#include <string>

#include "ding_worker/collector/comm/comm_collector_registry.h"  // IWYU pragma: export
#include "ding_worker/collector/parallel_registry.h"             // IWYU pragma: export
#include "ding_worker/coordinator/commander_registry.h"          // IWYU pragma: export
#include "ding_worker/interaction/store/store_registry.h"        // IWYU pragma: export
#include "ding_worker/learner/comm/comm_learner_registry.h"      // IWYU pragma: export

namespace ding {

// What `--list_modules` of a parallel program prints behind ListModules() (registry.h).
std::string ListParallelModules();

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_REGISTRY_H_
