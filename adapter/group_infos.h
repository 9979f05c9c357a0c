// Reports of training: those of the learners of a group that are at the same step become one.
//
//   Add(): learner 0, step 5, priorities a ─┐
//                                           ├─ Next(): step 5, priorities a b
//   Add(): learner 1, step 5, priorities b ─┘
//
// Ownership: owns copies of what it is given.
// Threads:   thread-compatible: the aggregator's mutex guards it.
// Errors:    Add() refuses what one learner is to blame for; Next() fails if the learners are not in
//            step, for which nobody can be blamed.
#ifndef DING_WORKER_ADAPTER_GROUP_INFOS_H_
#define DING_WORKER_ADAPTER_GROUP_INFOS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/adapter/rank_queues.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class GroupInfos {
 public:
  // `members`: by rank. Reports of another generation are dropped.
  void BeginGeneration(const std::vector<uint32_t>& members) { waiting_.Reset(members); }
  // Also at the end of the task.
  void EndGeneration() { waiting_.Reset({}); }

  // `learner` is a member of the generation.
  //   kInvalidArgument    the coordinator would refuse the report
  //   kResourceExhausted  too many reports, or bytes of them, ahead of the other learners
  absl::Status Add(uint32_t learner, const LearnerInfo& info);
  // The next report of the group; none: a member has none. Call it until there is none, after each
  // Add().
  //   kFailedPrecondition  the learners are not at the same step, or not all done
  absl::StatusOr<std::optional<LearnerInfo>> Next();
  // What rank 0 has reported last, if that waits for others and says that the run is done.
  std::optional<LearnerInfo> LastOfRun() const;

 private:
  RankQueues<LearnerInfo> waiting_;
  // Rank 0 does not train at the moment: passed on at once.
  std::optional<LearnerInfo> stalled_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_INFOS_H_
