// Includes every registry, and the functions that make modules from their configs, for serial and
// for parallel runs.
//
//   create_env, create_policy, create_buffer, ...  worker/serial_registry.h
//   create_parallel_collector, and its class       collector/parallel_registry.h
//   create_parallel_commander, and its class       coordinator/commander/commander_registry.h
//   create_comm_collector                          collector/comm/comm_collector_registry.h
//   create_comm_learner                            learner/comm/comm_learner_registry.h
//   create_store                                   interaction/store/store_registry.h
//   CodecRegistry                                  interaction/store/compressed_store.h
//   AllReduceRegistry                              interaction/all_reduce/all_reduce_registry.h
//
// Only linked modules can be made: a program links the factory targets that it needs, or
// //worker:default_modules, and //worker:parallel_modules for parallel runs. The registries alone
// need neither gRPC nor Redis.
#ifndef DING_WORKER_WORKER_REGISTRY_H_
#define DING_WORKER_WORKER_REGISTRY_H_

#include <string>

#include "ding_worker/collector/comm/comm_collector_registry.h"      // IWYU pragma: export
#include "ding_worker/collector/parallel_registry.h"                 // IWYU pragma: export
#include "ding_worker/coordinator/commander/commander_registry.h"    // IWYU pragma: export
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"  // IWYU pragma: export
#include "ding_worker/interaction/store/compressed_store.h"          // IWYU pragma: export
#include "ding_worker/interaction/store/store_registry.h"            // IWYU pragma: export
#include "ding_worker/learner/comm/comm_learner_registry.h"          // IWYU pragma: export
#include "ding_worker/worker/serial_registry.h"                      // IWYU pragma: export

namespace ding {

// Returns the text that `--list_modules` prints: the names in each registry, with one line of help
// each, in the format of worker/list_registry.h.
std::string ListModules();

}  // namespace ding

#endif  // DING_WORKER_WORKER_REGISTRY_H_
