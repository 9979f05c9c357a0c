// A learner's side of the control plane: demands data for the running task, and publishes what it
// learned. One of a group (LearnerTask.group_worker) also joins and leaves the group's generations.
//
//     Demand() ──► LearnerDemand       NextData() ◄── LearnerData, in the order of the demands
//     SendInfo(), SendPolicy() ──►
//     NextGroup() ──► GroupReady, then ◄── FormGroup; from then on it is a Rendezvous of the generation
//
// Ownership, threads, blocking: as Slave.
#ifndef DING_WORKER_LEARNER_COMM_LEARNER_SLAVE_H_
#define DING_WORKER_LEARNER_COMM_LEARNER_SLAVE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/control/slave.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class LearnerSlave : public Slave, public Rendezvous {
 public:
  using Slave::Slave;

  // Asks for `batches` batches for the running task; returns the sequence of the answer. Of rows that were
  // collected by the policy of other train iterations than `collect_iters` none are wanted; empty: of all.
  absl::StatusOr<uint64_t> Demand(int64_t batch_size, int32_t batches, int64_t train_iter,
                                  absl::Span<const int64_t> collect_iters = {});
  // The next answer.
  //   kDeadlineExceeded  there is none
  //   kAborted           the generation of the group is over
  absl::StatusOr<LearnerData> NextData(absl::Duration timeout);
  // The evaluations of the policy that came since the last call, oldest first.
  std::vector<EvaluationResult> TakeEvaluations();
  // The answers up to this one are read: what left the buffer since may be deleted.
  void SetRead(uint64_t sequence);
  // Without the task's id. One that says that the learner is done ends the task.
  absl::Status SendInfo(LearnerInfo info);
  absl::Status SendPolicy(const PolicyVersion& policy);
  // Chunks that cannot be learned from; without the task's id.
  absl::Status SendBadChunks(BadChunks bad);

  // Says `ready`, without the task's id, and waits for the next generation that this learner is in.
  // Nothing is demanded meanwhile; answers to what was demanded before are forgotten.
  //   kDeadlineExceeded  there is none
  absl::StatusOr<FormGroup> NextGroup(GroupReady ready, absl::Duration timeout);
  // Whether that generation is over, as the aggregator says: from then until NextGroup().
  bool GroupIsBroken() const;
  // It is over for this learner: wakes who waits for data of it.
  void LeaveGroup();
  // Called when it is over, as the aggregator says, on the thread of Serve(), under a lock. To be set before
  // that starts.
  void set_on_broken(std::function<void()> on_broken) { on_broken_ = std::move(on_broken); }

  // Values of the generation that NextGroup() returned.
  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override;

 private:
  void ResetTask(const StartTask& start) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const CoordinatorMessage& message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeGroup(const FormGroup& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::function<void()> on_broken_;
  // These count over the life of this worker, not over a task.
  uint64_t demanded_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t read_ ABSL_GUARDED_BY(mutex_) = 0;
  // Answers that wait: no more than there are demands under way.
  std::deque<LearnerData> data_ ABSL_GUARDED_BY(mutex_);
  std::vector<EvaluationResult> evaluations_ ABSL_GUARDED_BY(mutex_);
  // The last one; none: there was none yet.
  std::optional<FormGroup> group_ ABSL_GUARDED_BY(mutex_);
  bool group_is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_LEARNER_SLAVE_H_
