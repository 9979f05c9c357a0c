// A collector's side of the control plane: it announces the rows of the running task, and keeps the
// newest version of each policy.
//
//     Announce(), Finish() ──────► CollectorData, CollectorFinished
//     NewerPolicy() ◄───────────── PolicyVersion: only the newest one of each player is kept
//
// At most kMaxUnacknowledged announcements are under way: when the coordinator's buffer delays its
// acknowledgements, Announce() waits. A task may set a smaller number; with 0, Announce() waits for
// its own acknowledgement.
//
// CollectorProtocol says what messages mean, without waiting. The simulation of the control plane
// runs it, too.
//
// Ownership, threads, blocking: as Slave; CollectorProtocol is thread-compatible.
#ifndef DING_WORKER_COLLECTOR_COMM_COLLECTOR_SLAVE_H_
#define DING_WORKER_COLLECTOR_COMM_COLLECTOR_SLAVE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/interaction/control/slave.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class CollectorProtocol {
 public:
  static constexpr uint64_t kMaxUnacknowledged = 8;

  // Begins a task. Does not wait any more for acknowledgements of the previous task.
  void Start(const CollectorTask& task);
  // Takes acknowledgements and policies, and ignores other messages.
  void Take(const CoordinatorMessage& message);

  // Whether data may be announced, and whether the collector goes on after an announcement.
  bool MayAnnounce() const { return under_way() < std::max<uint64_t>(1, max_unacknowledged_); }
  bool MayGoOn() const { return under_way() <= max_unacknowledged_; }
  // Returns the next announcement; MayAnnounce() must be true.
  CollectorData Announce(std::string items, const CollectorProgress& progress);
  // Says that the last announcement could not be sent: the coordinator expects the same number
  // next.
  void TakeBack() { --announced_; }
  CollectorData Stalled(absl::string_view reason) const;

  int players() const { return static_cast<int>(players_.size()); }
  // Returns the newest policy of the player that is newer than `version`; null if there is none.
  const PolicyVersion* NewerPolicy(int player, uint64_t version) const;
  bool FollowsPolicy(int player) const { return players_[static_cast<size_t>(player)].follows; }
  bool acts_at_random() const { return acts_at_random_; }
  uint64_t under_way() const { return announced_ - acknowledged_; }

 private:
  struct Player {
    PolicyVersion policy;  // without a key, it has not come yet
    PolicyVersion newest;  // an evaluation goes on with `policy` when later versions come
    bool follows = false;  // whether it takes newer versions
  };

  std::string task_id_;
  bool evaluates_ = false;
  std::vector<Player> players_;
  ProgressReport progress_;
  uint64_t max_unacknowledged_ = kMaxUnacknowledged;
  bool acts_at_random_ = false;
  // Both count from the start of this worker, not of a task.
  uint64_t announced_ = 0;
  uint64_t acknowledged_ = 0;
};

class CollectorSlave : public Slave {
 public:
  using Slave::Slave;

  // Announces rows of the running task. `items` (EncodeItems()) refer to chunks that are in the
  // store already.
  absl::Status Announce(std::string items, const CollectorProgress& progress);
  // Reports why the collector sends no data at the moment. An empty `reason` reports that it sends
  // data again.
  absl::Status ReportStall(absl::string_view reason);
  // Reports that the task is over. The caller need not set the id of the task in `info`.
  absl::Status Finish(CollectorFinished info);
  // Returns the newest policy of this player of the task if it is newer than `version`; waits for
  // one for at most `timeout`. An evaluation begins with the policy that its task names, even if
  // there is a newer one.
  //   kInvalidArgument  the task has no such player
  absl::StatusOr<std::optional<PolicyVersion>> NewerPolicy(int player, uint64_t version,
                                                           absl::Duration timeout);
  // Whether newer versions of this player's policy may come.
  bool FollowsPolicy(int player) const;
  // Whether the task must act at random now.
  bool acts_at_random() const;

 private:
  void ResetTask(const StartTask& start) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const CoordinatorMessage& message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CollectorProtocol protocol_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COLLECTOR_SLAVE_H_
