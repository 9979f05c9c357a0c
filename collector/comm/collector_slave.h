// A collector's side of the control plane: it announces the rows of the running task, and keeps the newest version of
// each policy.
//
//     Announce(), Finish() ──────► CollectorData, CollectorFinished
//     NewerPolicy() ◄───────────── PolicyVersion: only the newest one of each player is kept
//
// At most kMaxUnacknowledged announcements are under way: when the coordinator's buffer delays its acknowledgements,
// Announce() waits. A task may set a smaller number; with 0, Announce() waits for its own acknowledgement.
//
// Ownership, threads, blocking: as Slave.
#ifndef DING_WORKER_COLLECTOR_COMM_COLLECTOR_SLAVE_H_
#define DING_WORKER_COLLECTOR_COMM_COLLECTOR_SLAVE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/collector/parallel/collector_link.h"
#include "ding_worker/interaction/control/slave.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class CollectorSlave : public Slave {
 public:
  static constexpr uint64_t kMaxUnacknowledged = 8;

  using Slave::Slave;

  // Announces rows of the running task. `items` (EncodeItems()) refer to chunks that are in the store already.
  absl::Status Announce(std::string items, const CollectorProgress& progress);
  // Reports why the collector sends no data at the moment. An empty `reason` reports that it sends data again.
  absl::Status ReportStall(absl::string_view reason);
  // Reports that the task is over. `info` need not have the id of the task.
  absl::Status Finish(CollectorFinished info);
  // Returns the newest policy of this player of the task if it is newer than `version`; waits for one for at most
  // `timeout`. An evaluation begins with the policy that its task names, even if there is a newer one.
  //   kInvalidArgument  the task has no such player
  absl::StatusOr<std::optional<PolicyVersion>> NewerPolicy(int player, uint64_t version,
                                                           absl::Duration timeout);
  // Whether newer versions of this player's policy may come.
  bool FollowsPolicy(int player) const;
  // Whether the task must act at random now.
  bool acts_at_random() const { return acts_at_random_.load(std::memory_order_relaxed); }

 private:
  void ResetTask(const StartTask& start) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const CoordinatorMessage& message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Returns a version newer than `version`, or nullptr if there is none.
  const PolicyVersion* NewerLocked(size_t player, uint64_t version) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool evaluates_ ABSL_GUARDED_BY(mutex_) = false;
  // The policy of each player; a policy without a key has not come yet. An evaluation has the policy of its task here, and
  // later versions in newest_.
  std::vector<PolicyVersion> policies_ ABSL_GUARDED_BY(mutex_);
  std::vector<PolicyVersion> newest_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> updates_ ABSL_GUARDED_BY(mutex_);  // by player: whether it takes newer versions
  CollectorProgress progress_ ABSL_GUARDED_BY(mutex_);
  uint64_t max_unacknowledged_ ABSL_GUARDED_BY(mutex_) = kMaxUnacknowledged;
  bool waits_for_each_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> acts_at_random_{false};
  // Both count from the start of this worker, not of a task.
  uint64_t announced_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COLLECTOR_SLAVE_H_
