// All-reduce groups whose ranks are threads of one process, for tests. The values are added in the
// order of the ranks, so the sums are the same every time.
//
// Ownership: the hub must outlive its groups.
// Threads:   the hub is thread-safe.
//
// Example:
//   InProcessAllReduceHub hub;
//   // In each of two threads:
//   auto group = hub.Connect({"a", rank, /*world_size=*/2}).value();
//   DING_RETURN_IF_ERROR(group->Sum(absl::MakeSpan(values)));
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_IN_PROCESS_ALL_REDUCE_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_IN_PROCESS_ALL_REDUCE_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"

namespace ding {

class InProcessAllReduceHub {
 public:
  InProcessAllReduceHub();
  ~InProcessAllReduceHub();

  // Creates a rank as an AllReduceCreator does, without a rendezvous.
  //   kAlreadyExists  the group already has this rank, or has another world size
  //   else            as for AllReduceCreator
  absl::StatusOr<std::unique_ptr<AllReduce>> Connect(const AllReduceOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Group;
  class Rank;

  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Group>> groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_IN_PROCESS_ALL_REDUCE_H_
