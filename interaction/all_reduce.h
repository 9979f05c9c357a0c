// Several processes, or threads, that add up their numbers: the wire of gradients.
//
//     rank 0 [1 2] ──┐
//     rank 1 [3 4] ──┼── Sum ──► [9 9] in every rank, the same to the bit
//     rank 2 [5 3] ──┘
//
// Implementations: in_process_all_reduce.h (threads of one process; tests), adapter/gloo (processes,
// libtorch's c10d).
//
// Every rank makes the same calls with the same sizes in the same order. After an error the group is
// dead for good: those that are left make a new one, with new ranks.
//
// Ownership: of each rank's own object; one that is destroyed leaves the group, which is dead then.
// Threads:   thread-compatible, but for Abort(), which any thread may call.
// Blocking:  every call waits for all ranks, for at most the timeout that the group was made with.
// Errors:    kUnavailable       a rank is gone: says which, if that can be told
//            kDeadlineExceeded  a rank does not come
//            kCancelled         Abort() was called here
//            kInvalidArgument   the ranks' sizes differ
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_H_

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

  // Replaces each value by its sum over all ranks.
  virtual absl::Status Sum(absl::Span<float> values) = 0;
  virtual absl::Status Sum(absl::Span<double> values) = 0;
  // Replaces `bytes` by those of rank 0, of any length.
  virtual absl::Status Broadcast(std::string* bytes) = 0;

  // Leaves the group: whoever waits, here and in the other ranks, is told.
  virtual void Abort() = 0;
};

// How the ranks of a group find each other before they are connected: what one sets, all can get.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Waits for somebody to set it.
  //   kDeadlineExceeded  nobody did
  virtual absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) = 0;
};

struct AllReduceOptions {
  std::string group;  // its name, which no other group ever had
  int rank = 0;
  int world_size = 1;
  absl::Duration timeout = absl::Seconds(30);  // of connecting, and of each call
  // Of this process, as the others reach it.
  std::string host = "127.0.0.1";
};

// Connects the ranks of a group: returns when all are there. `rendezvous` is used until then.
//   kInvalidArgument  a rank outside of the group, or a host that is none
//   else              as above
using AllReduceCreator = std::function<absl::StatusOr<std::unique_ptr<AllReduce>>(
    const AllReduceOptions& options, Rendezvous* rendezvous)>;

// kInvalidArgument if they cannot be.
absl::Status CheckAllReduceOptions(const AllReduceOptions& options);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_H_
