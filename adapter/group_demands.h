// Demands for data: those of the learners of a group become demands of the group, and the rows of an
// answer are split between the learners again.
//
//   Add(): learner 0, 16 rows ─┐                              ┌─► learner 0, rows 0 to 15
//                              ├─ Next(): 32 rows ... Split() ┤
//   Add(): learner 1, 16 rows ─┘                              └─► learner 1, rows 16 to 31
//
// A demand of the group is made when every member has one, and numbered from 1 for as long as the
// group's session with the coordinator lasts. It is read when all learners have read their shares.
//
// Ownership: owns copies of what it is given.
// Threads:   thread-compatible: the aggregator's mutex guards it.
// Errors:    Add() refuses what the learner is to blame for, Split() what the coordinator is.
#ifndef DING_WORKER_ADAPTER_GROUP_DEMANDS_H_
#define DING_WORKER_ADAPTER_GROUP_DEMANDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/adapter/rank_queues.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class GroupDemands {
 public:
  // One learner's part of an answer.
  struct Share {
    uint32_t learner;
    CoordinatorMessage message;
  };

  // `members`: by rank. Demands of another generation are dropped.
  void BeginGeneration(const std::vector<uint32_t>& members) { waiting_.Reset(members); }
  // Answers to demands that are under way are for nobody from now on.
  void EndGeneration();
  // Nothing of the task is under way any more, and all of it counts as read.
  void EndTask();

  // `learner` is a member of the generation.
  //   kInvalidArgument    the coordinator would refuse the demand, or that of a whole group of such
  //                       learners; or it claims to have read what is not answered
  //   kResourceExhausted  too many demands ahead of the other learners
  absl::Status Add(uint32_t learner, const LearnerDemand& demand);
  // The next demand of the group; none: a member has none, or enough is under way. Call it until
  // there is none, after each Add() and Split().
  std::optional<LearnerDemand> Next();
  // The shares of the coordinator's answer; none if it answers nothing, or a generation that is over.
  // Errors of SplitItems().
  absl::StatusOr<std::vector<Share>> Split(const LearnerData& data);

 private:
  struct Part {
    uint32_t learner;
    uint64_t sequence;  // of the learner's own demand
    int64_t rows;
  };
  // A demand that the coordinator was sent.
  struct Sent {
    std::vector<Part> parts;    // by rank; none: its generation is over
    std::set<uint32_t> unread;  // learners that have not read their share
    bool answered = false;
  };

  // Whether the coordinator can be asked for more: it has answered enough, and enough of that is read.
  bool MayDemand();
  // The last demand up to which all learners have read all.
  uint64_t ReadUpTo();

  RankQueues<LearnerDemand> waiting_;
  std::map<uint64_t, Sent> sent_;
  uint64_t demanded_ = 0;
  uint64_t read_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_DEMANDS_H_
