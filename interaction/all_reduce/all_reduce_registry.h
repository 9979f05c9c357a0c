// Finds an all-reduce by name. It knows the ones that are linked into the program: "tcp"
// (tcp_all_reduce.h), and in programs with libtorch "gloo" (adapter/gloo).
//
// Threads: thread-safe, as Registry is (base/registry.h).
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_REGISTRY_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_REGISTRY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"

namespace ding {

// The registry of this process.
Registry<AllReduceCreator>& AllReduceRegistry();

// Connects one rank to its group by the all-reduce of this type.
//   kNotFound            the type is not linked; lists the linked types
//   kFailedPrecondition  another rank has another type; names both
//   kInternal            its factory threw an exception, or returned null
//   else                 as for AllReduceCreator
absl::StatusOr<std::unique_ptr<AllReduce>> create_all_reduce(absl::string_view type,
                                                             const AllReduceOptions& options,
                                                             Rendezvous* rendezvous);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_REGISTRY_H_
