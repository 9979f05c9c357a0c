// The status of the learners of a group, for people: their names and processes, and what each of them waits
// for.
//
// Ownership: the clock must outlive a GroupReporter.
// Threads:   thread-compatible; the aggregator's mutex guards it.
// Errors:    none.
#ifndef DING_WORKER_ADAPTER_GROUP_STATUS_H_
#define DING_WORKER_ADAPTER_GROUP_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/adapter/group_roster.h"
#include "ding_worker/adapter/group_task.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Fills in the status of one learner. `task` is the group's task, or null if it has none.
void FillLearnerStatus(uint32_t worker, const GroupRoster::Learner& learner, const GroupTask* task,
                       const Clock* clock, WorkerStatus* status);

// Makes the reports of the group for the coordinator: one per period, if the group has changed.
class GroupReporter {
 public:
  GroupReporter(absl::Duration period, const Clock* clock);

  // Returns the report that is due now, or nullopt if none is. If there are more learners than the coordinator
  // accepts in a report (kMaxGroupMembers, kMaxGroupStatusBytes), the last ones are left out.
  std::optional<GroupStatus> Next(const GroupRoster& roster, const GroupTask* task);

 private:
  const absl::Duration period_;
  const Clock* const clock_;
  // The learners at the time of the last report, each with what it waited for.
  std::vector<std::pair<uint32_t, std::string>> reported_;
  Timer since_report_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_STATUS_H_
