// All-reduce groups of threads of one process: for tests. Sums are formed in the order of the ranks,
// so that they are the same every time.
//
// Ownership: the hub outlives the groups.
// Threads:   the hub is thread-safe.
//
// Example:
//   InProcessAllReduceHub hub;
//   // In each of two threads:
//   auto group = hub.Connect({"a", rank, /*world_size=*/2}).value();
//   DING_RETURN_IF_ERROR(group->Sum(absl::MakeSpan(values)));
#ifndef DING_WORKER_INTERACTION_IN_PROCESS_ALL_REDUCE_H_
#define DING_WORKER_INTERACTION_IN_PROCESS_ALL_REDUCE_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/all_reduce.h"

namespace ding {

class InProcessAllReduceHub {
 public:
  InProcessAllReduceHub();
  ~InProcessAllReduceHub();

  // An AllReduceCreator. kAlreadyExists if the group has that rank already, or another world size.
  absl::StatusOr<std::unique_ptr<AllReduce>> Connect(const AllReduceOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Group;
  class Rank;

  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Group>> groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_IN_PROCESS_ALL_REDUCE_H_
