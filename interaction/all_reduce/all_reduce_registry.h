// Finds an all-reduce by name. It knows the ones that are linked into the program: "gloo" (adapter/gloo) in
// programs with libtorch, none in others.
//
// Threads: thread-safe, as Registry is (base/registry.h).
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_REGISTRY_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_REGISTRY_H_

#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"

namespace ding {

// The registry of this process.
Registry<AllReduceCreator>& AllReduceRegistry();

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_REGISTRY_H_
