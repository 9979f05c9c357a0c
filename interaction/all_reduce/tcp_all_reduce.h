// An all-reduce between processes over TCP, without libtorch. The ranks form a ring, and each one
// sends to the next.
//
//     Sum, 2 (N - 1) steps of 1/N of the values each:   rank 0 ──► rank 1 ──► ... ──► rank N - 1 ──► rank 0
//     Broadcast, in blocks:                             rank 0 ──► rank 1 ──► ... ──► rank N - 1
//
// Each value is summed along the ring, and the sum is copied to the other ranks. The rank at which
// a sum begins depends only on the index of the value. So sums are the same in all ranks and runs.
//
// A rank accepts a connection only from the previous rank, which knows a secret from the
// rendezvous. Other connections are dropped. The traffic is not encrypted.
//
// Memory: 256 KiB for each rank, and the result of Broadcast().
// Errors: a lost rank closes its connections. The next rank then fails and closes its own, and so
//         on, so that all waiting ranks return kUnavailable with the name of the previous rank. If
//         sizes or types differ, the next rank notices, and names both.
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_TCP_ALL_REDUCE_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_TCP_ALL_REDUCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"

namespace ding {

// An AllReduceCreator. A rank listens at a free port of `options.host` while it connects.
absl::StatusOr<std::unique_ptr<AllReduce>> ConnectTcp(const AllReduceOptions& options,
                                                      Rendezvous* rendezvous);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_TCP_ALL_REDUCE_H_
