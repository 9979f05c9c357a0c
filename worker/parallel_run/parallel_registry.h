// The facade of parallel runs, beside worker/registry.h. One include gives all registries that only
// parallel runs use, and the functions that make modules from their configs.
//
//   create_parallel_collector, get_parallel_collector_cls    collector/parallel_registry.h
//   create_parallel_commander, get_parallel_commander_cls    coordinator/commander/commander_registry.h
//   create_comm_collector                        collector/comm/comm_collector_registry.h
//   create_comm_learner                          learner/comm/comm_learner_registry.h
//   create_store                                 interaction/store/store_registry.h
//   CodecRegistry                                interaction/store/codec.h
//   AllReduceRegistry                            interaction/all_reduce/all_reduce_registry.h
//
// Only linked modules can be made: a program lists the factory targets that it wants, or
// //worker:parallel_modules. A serial program needs none of them.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_REGISTRY_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_REGISTRY_H_

#include <string>

#include "ding_worker/collector/comm/comm_collector_registry.h"      // IWYU pragma: export
#include "ding_worker/collector/parallel_registry.h"                 // IWYU pragma: export
#include "ding_worker/coordinator/commander/commander_registry.h"    // IWYU pragma: export
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"  // IWYU pragma: export
#include "ding_worker/interaction/store/codec.h"                     // IWYU pragma: export
#include "ding_worker/interaction/store/store_registry.h"            // IWYU pragma: export
#include "ding_worker/learner/comm/comm_learner_registry.h"          // IWYU pragma: export

namespace ding {

// Returns the text that `--list_modules` of a parallel program prints after ListModules() (registry.h).
std::string ListParallelModules();

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_REGISTRY_H_
