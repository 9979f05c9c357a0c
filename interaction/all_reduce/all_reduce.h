// Sums numbers over several processes or threads. Learners of a group sum their gradients with it.
//
//     rank 0 [1 2] ──┐
//     rank 1 [3 4] ──┼── Sum ──► [9 9] in every rank, identical to the bit
//     rank 2 [5 3] ──┘
//
// Implementations: tcp_all_reduce.h (processes), adapter/gloo (processes, libtorch's c10d),
// in_process_all_reduce.h (threads of one process; tests).
//
// Every rank makes the same calls with the same sizes in the same order. After an error the group
// is unusable: the remaining processes form a new group, with new ranks.
//
// Ownership: each rank owns its own object. Destroying it leaves the group, which ends the group.
// Threads:   thread-compatible, except for Abort(), which any thread may call.
// Blocking:  every call waits for all ranks, at most for the timeout of the group's options.
// Errors:    kUnavailable       a rank is gone; the message names it if it is known
//            kDeadlineExceeded  a rank did not make the call in time
//            kCancelled         Abort() was called on this object
//            kInvalidArgument   the sizes or the types of the ranks differ
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace ding {

class AllReduce {
 public:
  virtual ~AllReduce() = default;

  virtual int rank() const = 0;        // 0 ... world_size() - 1
  virtual int world_size() const = 0;  // at least 1

  // Replaces each value with its sum over all ranks.
  virtual absl::Status Sum(absl::Span<float> values) = 0;
  virtual absl::Status Sum(absl::Span<double> values) = 0;
  // Replaces `bytes` with the bytes of rank 0, of any length.
  virtual absl::Status Broadcast(std::string* bytes) = 0;

  // Leaves the group. Waiting calls, in this rank and in the others, return an error.
  virtual void Abort() = 0;
};

// Lets the ranks of a group find each other before they are connected: every rank can get a value
// that any rank has set.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Waits until a rank sets the value of `key`, and returns it.
  //   kDeadlineExceeded  no rank did so within `timeout`
  virtual absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) = 0;
};

struct AllReduceOptions {
  std::string group;  // the group's name; never use a name twice
  int rank = 0;
  int world_size = 1;
  absl::Duration timeout = absl::Seconds(30);  // for connecting, and for each call
  // The host at which the other ranks reach this process.
  std::string host = "127.0.0.1";
};

// Connects one rank to its group. Returns when all ranks are connected; `rendezvous` is used until
// then.
//   kInvalidArgument  the rank is outside the group, or the host is invalid
//   else              as for AllReduce
using AllReduceCreator = std::function<absl::StatusOr<std::unique_ptr<AllReduce>>(
    const AllReduceOptions& options, Rendezvous* rendezvous)>;

// kInvalidArgument if the rank is outside the group, the group is larger than 65536 ranks, or the
// timeout is not positive or more than a year.
absl::Status CheckAllReduceOptions(const AllReduceOptions& options);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_H_
