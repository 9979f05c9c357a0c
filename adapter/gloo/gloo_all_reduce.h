// All-reduce among processes by libtorch's c10d with Gloo: TCP from each rank to each. What the ranks
// tell each other is not encrypted: it belongs on a private network (docs/adapter.md).
//
// They find each other by the rendezvous, which goes by the control plane: there is no further port to
// listen on for that, and none that takes whatever comes.
//
// Ownership, threads, errors: as AllReduce.
#ifndef DING_WORKER_ADAPTER_GLOO_GLOO_ALL_REDUCE_H_
#define DING_WORKER_ADAPTER_GLOO_GLOO_ALL_REDUCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/all_reduce.h"

namespace ding {

// An AllReduceCreator: type "gloo".
absl::StatusOr<std::unique_ptr<AllReduce>> ConnectGloo(const AllReduceOptions& options,
                                                       Rendezvous* rendezvous);

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GLOO_GLOO_ALL_REDUCE_H_
