// Finds the all-reduce by name. What is linked is known: "gloo" (adapter/gloo) in programs with
// libtorch, none in others.
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_REGISTRY_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_REGISTRY_H_

#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/all_reduce.h"

namespace ding {

Registry<AllReduceCreator>& AllReduceRegistry();

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_REGISTRY_H_
