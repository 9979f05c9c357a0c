// A collector's side of the control plane: announces what the running task makes, and keeps the
// newest policy that there is.
//
//     Announce(), Finish() ──────► CollectorData, CollectorFinished
//     NewerPolicy() ◄───────────── PolicyVersion: latest wins, for each player who learns
//
// At most kMaxUnacknowledged announcements are under way: when the coordinator's buffer pushes back,
// Announce() waits. A task may ask for fewer, or with 0 for Announce() to wait for its own acknowledgement.
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

  // Announces rows of the running task. `items` lie in the store.
  absl::Status Announce(std::string items, const CollectorProgress& progress);
  // Tells why no data come at the moment; empty: they do again.
  absl::Status ReportStall(absl::string_view reason);
  // It is over; `info` without its id.
  absl::Status Finish(CollectorFinished info);
  // The newest policy of this player of the task, if it is newer than `version`; waits for one at
  // most `timeout`. An evaluation is of the policy that its task names: that one is given first. kInvalidArgument if the task has no such player.
  absl::StatusOr<std::optional<PolicyVersion>> NewerPolicy(int player, uint64_t version,
                                                           absl::Duration timeout);
  // Whether newer versions of this player's policy may come.
  bool FollowsPolicy(int player) const;
  // Whether the task is to act at random now.
  bool acts_at_random() const { return acts_at_random_.load(std::memory_order_relaxed); }

 private:
  void ResetTask(const StartTask& start) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const CoordinatorMessage& message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Returns a version newer than `version`, or nullptr if there is none.
  const PolicyVersion* NewerLocked(size_t player, uint64_t version) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool evaluates_ ABSL_GUARDED_BY(mutex_) = false;
  // The policy of each player; one without a key is not there yet. An evaluation has its own policy
  // here, and later versions in newest_.
  std::vector<PolicyVersion> policies_ ABSL_GUARDED_BY(mutex_);
  std::vector<PolicyVersion> newest_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> updates_ ABSL_GUARDED_BY(mutex_);  // whether newer ones are wanted
  CollectorProgress progress_ ABSL_GUARDED_BY(mutex_);
  uint64_t max_unacknowledged_ ABSL_GUARDED_BY(mutex_) = kMaxUnacknowledged;
  bool waits_for_each_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> acts_at_random_{false};
  // These count over the life of this worker, not over a task.
  uint64_t announced_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COLLECTOR_SLAVE_H_
