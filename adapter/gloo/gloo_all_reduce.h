// All-reduce between processes, by libtorch's c10d with Gloo: a TCP connection between each two
// ranks. The connections are not encrypted, so use them on a private network only
// (docs/reference/adapter.md).
//
// The ranks find each other through the Rendezvous. Its values travel over the control plane, so
// there is no further port that strangers could connect to.
//
// Ownership, threads, errors: the same as for AllReduce.
#ifndef DING_WORKER_ADAPTER_GLOO_GLOO_ALL_REDUCE_H_
#define DING_WORKER_ADAPTER_GLOO_GLOO_ALL_REDUCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"

namespace ding {

// Connects this rank to the others of its group. It is an AllReduceCreator, registered as type
// "gloo".
absl::StatusOr<std::unique_ptr<AllReduce>> ConnectGloo(const AllReduceOptions& options,
                                                       Rendezvous* rendezvous);

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GLOO_GLOO_ALL_REDUCE_H_
