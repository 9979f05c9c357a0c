// Merges the messages of a group's learners into messages of the group: demands for data
// (GroupDemands) and reports of training (GroupInfos).
//
// Ownership: both copy their arguments.
// Threads:   thread-compatible; the aggregator's mutex guards them.
#ifndef DING_WORKER_ADAPTER_GROUP_DEMANDS_H_
#define DING_WORKER_ADAPTER_GROUP_DEMANDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/adapter/merge.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Merges the learners' demands for data into demands of the group, and splits the rows of an answer
// between the learners again.
//
//   Add(): learner 0, 16 rows ─┐                              ┌─► learner 0, rows 0 to 15
//                              ├─ Next(): 32 rows ... Split() ┤
//   Add(): learner 1, 16 rows ─┘                              └─► learner 1, rows 16 to 31
//
// A demand of the group is made once every member has sent one. The demands of the group are
// numbered from 1 for as long as the group's session with the coordinator lasts. A demand of the
// group counts as read when all learners have read their shares.
//
// The learners of an on-policy policy demand rounds: rows of the versions that learner 0 names
// (LearnerDemand.collect_iter). A round may have more or fewer rows than demanded, and is split
// evenly.
//
// Errors: an error of Add() is the fault of that learner, an error of Split() the coordinator's.
class GroupDemands {
 public:
  // The part of an answer for one learner.
  struct Share {
    uint32_t learner;
    CoordinatorMessage message;
  };

  // `members` are in the order of their ranks. Drops the demands of the generation before.
  void BeginGeneration(const std::vector<uint32_t>& members) { waiting_.Reset(members); }
  // Drops the waiting demands, and later the answers to demands that were sent already.
  void EndGeneration();
  // Drops all demands. Those that were sent count as answered and read.
  void EndTask();

  // Adds the demand of a member of the generation.
  //   kInvalidArgument    the coordinator would refuse this demand, or the sum if all members sent
  //                       the same; or it reports an answer as read that was not given
  //   kResourceExhausted  the learner is too many demands ahead of the others
  absl::Status Add(uint32_t learner, const LearnerDemand& demand);
  // Returns the next demand of the group, or nullopt if a member has none or if enough demands are
  // unanswered or unread. Call it after each Add() and Split(), until it returns nullopt.
  std::optional<LearnerDemand> Next();
  // Splits the coordinator's answer into the learners' shares; empty if no demand has this number,
  // it was answered before, or its generation is over. Has the errors of SplitItems().
  absl::StatusOr<std::vector<Share>> Split(const LearnerData& data);

 private:
  struct Part {
    uint32_t learner;
    uint64_t sequence;  // the number of the learner's own demand
    int64_t rows;
  };
  // A demand that was sent to the coordinator.
  struct Sent {
    std::vector<Part> parts;    // in the order of the ranks; empty if its generation is over
    std::set<uint32_t> unread;  // the learners that have not read their share
    bool is_round = false;
    bool answered = false;
  };

  // Whether another demand may be sent: few enough are unanswered, and few enough are unread.
  bool MayDemand();
  // The number of the last demand up to which all learners have read everything.
  uint64_t ReadUpTo();

  RankQueues<LearnerDemand> waiting_;
  std::map<uint64_t, Sent> sent_;
  uint64_t demanded_ = 0;
  uint64_t read_ = 0;
};

// Merges the learners' reports of training: the reports of all members for the same step become one
// report of the group.
//
//   Add(): learner 0, step 5, priorities a ─┐
//                                           ├─ Next(): step 5, priorities a b
//   Add(): learner 1, step 5, priorities b ─┘
//
// Errors: an error of Add() is the fault of that learner. Next() fails if the learners are at
//         different steps, for which no single learner can be blamed.
class GroupInfos {
 public:
  // `members` are in the order of their ranks. Drops the reports of the generation before.
  void BeginGeneration(const std::vector<uint32_t>& members) { waiting_.Reset(members); }
  // Drops all reports. Call it at the end of the task, too.
  void EndGeneration() { waiting_.Reset({}); }

  // Adds the report of a member of the generation.
  //   kInvalidArgument    the coordinator would refuse the report
  //   kResourceExhausted  this learner is too many reports, or too many bytes of them, ahead of the
  //                       others
  absl::Status Add(uint32_t learner, const LearnerInfo& info);
  // Returns the next report of the group, or nullopt if a member has not reported yet. Call it
  // after each Add(), until it returns nullopt.
  //   kFailedPrecondition  the learners are not at the same step, or disagree on whether they are
  //                        done
  absl::StatusOr<std::optional<LearnerInfo>> Next();
  // The last report of rank 0, if it still waits for the reports of the others and says that the
  // run is done.
  std::optional<LearnerInfo> LastOfRun() const;

 private:
  RankQueues<LearnerInfo> waiting_;
  // A report of rank 0 that it stalls. It is passed on at once.
  std::optional<LearnerInfo> stalled_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_DEMANDS_H_
