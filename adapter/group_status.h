// What people are told of the learners of a group: who they are, and what each of them waits for.
//
// Ownership: the clock outlives a GroupReporter.
// Threads:   thread-compatible: the aggregator's mutex guards it.
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

// `task`: what the group learns; null: nothing.
void FillLearnerStatus(uint32_t worker, const GroupRoster::Learner& learner, const GroupTask* task,
                       const Clock* clock, WorkerStatus* status);

// Says when the coordinator is to be told of the group: if it has changed, once per period.
class GroupReporter {
 public:
  GroupReporter(absl::Duration period, const Clock* clock);

  // As many learners as the coordinator takes; none: there is nothing to tell.
  std::optional<GroupStatus> Next(const GroupRoster& roster, const GroupTask* task);

 private:
  const absl::Duration period_;
  const Clock* const clock_;
  // Who was in the last report, with what that one waited for.
  std::vector<std::pair<uint32_t, std::string>> reported_;
  Timer since_report_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_STATUS_H_
