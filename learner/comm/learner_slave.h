// A learner's side of the control plane: demands data for the running task, and publishes what it
// learned.
//
//     Demand() ──► LearnerDemand       NextData() ◄── LearnerData, in the order of the demands
//     SendInfo(), SendPolicy() ──►
//
// Ownership, threads, blocking: as Slave.
#ifndef DING_WORKER_LEARNER_COMM_LEARNER_SLAVE_H_
#define DING_WORKER_LEARNER_COMM_LEARNER_SLAVE_H_

#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/slave.h"

namespace ding {

class LearnerSlave : public Slave {
 public:
  using Slave::Slave;

  // Of the running task. Asks for `batches` batches; returns the sequence of the answer.
  absl::StatusOr<uint64_t> Demand(int64_t batch_size, int32_t batches, int64_t train_iter);
  // The next answer.
  //   kDeadlineExceeded  there is none
  absl::StatusOr<LearnerData> NextData(absl::Duration timeout);
  // The answers up to this one are read: what left the buffer since may be deleted.
  void SetRead(uint64_t sequence);
  // Without the task's id. One that says that the learner is done ends the task.
  absl::Status SendInfo(LearnerInfo info);
  absl::Status SendPolicy(const PolicyVersion& policy);

 private:
  void ResetTask(const StartTask& start) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const CoordinatorMessage& message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Of this worker, not of the task.
  uint64_t demanded_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t read_ ABSL_GUARDED_BY(mutex_) = 0;
  // Answers that wait: no more than there are demands under way.
  std::deque<LearnerData> data_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_LEARNER_SLAVE_H_
