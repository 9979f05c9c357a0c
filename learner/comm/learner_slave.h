// A learner's side of the control plane: it demands data for the running task, reports progress and
// publishes policies. A learner of a group (LearnerTask.group_worker) also joins and leaves the
// group's generations.
//
//     Demand() ──► LearnerDemand       NextData() ◄── LearnerData, in the order of the demands
//     SendInfo(), SendPolicy() ──► LearnerInfo, PolicyVersion
//     NextGroup() ──► GroupReady, then ◄── FormGroup
//
// From FormGroup on, the slave is the Rendezvous of the generation.
//
// DemandProtocol is the logic of demands and answers, without waiting. The simulation of the
// control plane runs it, too.
//
// Ownership, threads, blocking: as Slave; DemandProtocol is thread-compatible.
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
#include "ding_worker/learner/evaluation.h"

namespace ding {

// Returns the part of a result that hooks see.
Evaluation EvaluationOf(const EvaluationResult& result);

class DemandProtocol {
 public:
  // Forgets the answers of the previous task or generation.
  void DropAnswers();
  // Returns the next demand. The caller sets `task_id` and the other fields.
  LearnerDemand Demand();
  // Takes an answer, unless it is a repetition. CountRead() must be called for each of its batches.
  void Take(const LearnerData& data);
  bool has_answer() const { return !answers_.empty(); }
  // Returns the next answer; has_answer() must be true.
  LearnerData NextAnswer();
  // Notes that one batch of that answer was read. Once all batches of all answers up to a number
  // are read, chunks that have left the buffer may be deleted; the next demand reports it.
  void CountRead(uint64_t sequence);

 private:
  // These count from the start of this worker, not of a task.
  uint64_t demanded_ = 0;
  uint64_t answered_ = 0;
  uint64_t returned_ = 0;  // by NextAnswer()
  uint64_t read_ = 0;
  // Answers that NextAnswer() has not returned; at most as many as there are demands under way.
  std::deque<LearnerData> answers_;
  std::map<uint64_t, int> unread_;  // how many batches of returned answers were not read, by answer
};

class LearnerSlave : public Slave, public Rendezvous {
 public:
  using Slave::Slave;

  // Demands `batches` batches for the running task, of rows that were collected by the policies of
  // these train iterations; an empty `collect_iters` allows all rows. Returns the number of the
  // coming answer.
  absl::StatusOr<uint64_t> Demand(int64_t batch_size, int32_t batches, int64_t train_iter,
                                  absl::Span<const int64_t> collect_iters = {});
  // Returns the next answer.
  //   kDeadlineExceeded  no answer came within `timeout`
  //   kAborted           the generation of the group is over
  absl::StatusOr<LearnerData> NextData(absl::Duration timeout);
  // Returns the evaluations of the policy that came since the last call, oldest first.
  std::vector<EvaluationResult> TakeEvaluations();
  // As DemandProtocol::CountRead().
  void CountRead(uint64_t sequence);
  // Reports progress. The caller need not set the id of the task in `info`. A report with
  // learner_done ends the task.
  absl::Status SendInfo(LearnerInfo info);
  absl::Status SendPolicy(const PolicyVersion& policy);
  // Reports unusable chunks. The caller need not set the id of the task in `bad`.
  absl::Status SendBadChunks(BadChunks bad);

  // Sends `ready`, in which the caller need not set the id of the task, and waits for the next
  // generation with this learner. Nothing may be demanded meanwhile, and answers to earlier demands
  // are dropped.
  //   kDeadlineExceeded  no generation began within `timeout`
  absl::StatusOr<FormGroup> NextGroup(GroupReady ready, absl::Duration timeout);
  // Whether the aggregator has ended the generation of the last NextGroup(); then true until the
  // next NextGroup().
  bool GroupIsBroken() const;
  // Leaves the generation of the last NextGroup(): wakes a NextData() that waits for its data.
  void LeaveGroup();
  // Sets a function that is called when the aggregator has ended the generation. The thread of
  // Serve() calls it under a lock. Set it before Serve() starts.
  void set_on_broken(std::function<void()> on_broken) { on_broken_ = std::move(on_broken); }

  // The Rendezvous of the generation that NextGroup() returned.
  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override;

 private:
  void ResetTask(const StartTask& start) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const CoordinatorMessage& message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeGroup(const FormGroup& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::function<void()> on_broken_;
  DemandProtocol demands_ ABSL_GUARDED_BY(mutex_);
  std::vector<EvaluationResult> evaluations_ ABSL_GUARDED_BY(mutex_);
  // The last generation; not set before the first one.
  std::optional<FormGroup> group_ ABSL_GUARDED_BY(mutex_);
  bool group_is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_LEARNER_SLAVE_H_
