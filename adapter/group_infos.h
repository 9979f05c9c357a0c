// Merges the learners' reports of training: the reports of all members for the same step become one report of
// the group.
//
//   Add(): learner 0, step 5, priorities a ─┐
//                                           ├─ Next(): step 5, priorities a b
//   Add(): learner 1, step 5, priorities b ─┘
//
// Ownership: copies its arguments.
// Threads:   thread-compatible; the aggregator's mutex guards it.
// Errors:    an error of Add() is the fault of that learner. Next() fails if the learners are at different
//            steps, which cannot be blamed on one of them.
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
  // `members` are in the order of their ranks. Drops the reports of the generation before.
  void BeginGeneration(const std::vector<uint32_t>& members) { waiting_.Reset(members); }
  // Drops all reports. Call it at the end of the task, too.
  void EndGeneration() { waiting_.Reset({}); }

  // Adds the report of a member of the generation.
  //   kInvalidArgument    the coordinator would refuse the report
  //   kResourceExhausted  this learner is too many reports, or too many bytes of them, ahead of the others
  absl::Status Add(uint32_t learner, const LearnerInfo& info);
  // Returns the next report of the group, or nullopt if a member has not reported yet. Call it after each
  // Add(), until it returns nullopt.
  //   kFailedPrecondition  the learners are not at the same step, or disagree on whether they are done
  absl::StatusOr<std::optional<LearnerInfo>> Next();
  // The last report of rank 0, if it still waits for the reports of the others and says that the run is done.
  std::optional<LearnerInfo> LastOfRun() const;

 private:
  RankQueues<LearnerInfo> waiting_;
  // A report of rank 0 that it does not train at the moment. It is passed on at once.
  std::optional<LearnerInfo> stalled_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_INFOS_H_
