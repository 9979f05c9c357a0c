// Several learners that learn together, seen as one: to the coordinator a learner, to the learners
// their coordinator.
//
//                    ┌──────────────────────┐ ◄── GroupReady, LearnerDemand, LearnerInfo ── learner, rank 0
//  coordinator ◄───► │  LearnerAggregator   │ ── FormGroup, LearnerData, BreakGroup ──►       ▲ all-reduce
//   (one session)    │  demands summed,     │                                                 ▼
//                    │  data split,         │ ◄────────────────────────────────────────► learner, rank 1
//                    │  infos merged        │
//                    └──────────────────────┘
//
// Parameters and gradients do not pass through it: rank 0 publishes policies to the store, and the
// learners reduce among themselves (interaction/all_reduce.h).
//
//   gathering ─► running ──► somebody is gone, or comes ──► forming ─► running ...
//
// A group has generations. A learner that is lost, or says that it lost another one, ends the
// generation: those that are left say how far they are, and form the next with dense ranks; rank 0 is
// the one that is farthest, and all go on from its state. Who comes later waits for the next
// generation, which begins for its sake no sooner than admit_period after the one before. Without a
// learner that was in a generation the task fails, and the coordinator gives it again from the last
// checkpoint.
//
// It connects the parts of the group, each in a file of its own: who is there (group_roster.h), the
// generations of the task (group_task.h), demands (group_demands.h), reports of training
// (group_infos.h) and what people are told (group_status.h).
//
// Ownership: the session and the transport outlive it. Owns its WorkerServer and the parts.
// Threads:   Run() belongs to one thread; Close() may be called by any.
// Errors:    a learner whose model is another one than the others', or that says what it cannot, is
//            disconnected with the reason: nothing goes on to the coordinator that it would not take.
//            A learner whose task fails fails the task of all.
//
// Example: adapter/example_test.cc.
#ifndef DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_
#define DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/group_demands.h"
#include "ding_worker/adapter/group_infos.h"
#include "ding_worker/adapter/group_roster.h"
#include "ding_worker/adapter/group_status.h"
#include "ding_worker/adapter/group_task.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport.h"
#include "ding_worker/interaction/worker_server.h"
#include "ding_worker/interaction/worker_session.h"

namespace ding {

class LearnerAggregator : private WorkerHandler {
 public:
  struct Options {
    // Learners that a task is begun with; with fewer after connect_timeout. At least 1.
    int learner_num = 1;
    absl::Duration connect_timeout = absl::Seconds(60);
    // For those that are left to notice that their generation is over: above the time-out of their
    // all-reduce. Who does not is left out of the next.
    absl::Duration form_timeout = absl::Seconds(45);
    // Between two generations that begin because a learner has come.
    absl::Duration admit_period = absl::Seconds(10);
    // For learners to end their task, and leave, at the end of the run.
    absl::Duration leave_timeout = absl::Seconds(15);
    // Between two reports to the coordinator of who is in the group, if that has changed.
    absl::Duration report_period = absl::Seconds(1);
    // Where to listen, and how. What learners are told is what the coordinator told this one.
    WorkerServer::Options server;
    const Clock* clock = Clock::Real();
  };

  // Errors of WorkerServer::Create(), and kInvalidArgument for options out of range.
  static absl::StatusOr<std::unique_ptr<LearnerAggregator>> Create(Options options,
                                                                   WorkerSession* coordinator,
                                                                   Transport* transport);
  ~LearnerAggregator() override;

  // Where learners connect to.
  const std::string& address() const { return server_->address(); }

  // Works until the run ends, and returns how; the learners have been told, and have left.
  //   kCancelled  Close() was called
  //   else        the coordinator is lost: says why
  absl::StatusOr<EndRun> Run();
  // Leaves the run.
  void Close();
  // Whether the run is over, and learners that end are not to be replaced.
  bool ended() const ABSL_LOCKS_EXCLUDED(mutex_);

  // What the learners do. The coordinator is told the same, for the status of the run.
  RunStatus status() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  LearnerAggregator(const Options& options, WorkerSession* coordinator);

  // The server's threads call these.
  absl::StatusOr<uint32_t> Admit(const Hello& hello) override ABSL_LOCKS_EXCLUDED(mutex_);
  OperatorReply Operate(const OperatorRequest& request) override;
  void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void WorkerLost(uint32_t worker, const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Handle(uint32_t worker, const WorkerMessage& message) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // These handle the messages of the coordinator.
  void TakeTask(const StartTask& start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeData(const LearnerData& data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeEnd(const EndRun& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // These handle the messages of learners.
  absl::Status TakeReady(uint32_t worker, const GroupReady& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeDemand(uint32_t worker, const LearnerDemand& demand)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeInfo(uint32_t worker, const LearnerInfo& info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeFailure(uint32_t worker, const TaskFailed& failed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PassOnPolicy(uint32_t worker, const PolicyVersion& version)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PassOnBadChunks(uint32_t worker, const BadChunks& bad)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PassOnValue(uint32_t worker, const GroupValue& value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void StartLearner(uint32_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What time brings about, and what every change may.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next generation, of all that are ready.
  void FormGeneration() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BreakGeneration(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendDemands() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendInfos() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendResources() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportGroup() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailTask(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefuseTask(const std::string& task_id, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Learners end what they have of it.
  void CloseTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(const WorkerMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The name of a learner that is there.
  const std::string& NameOf(uint32_t worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsMember(uint32_t worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTask(const std::string& task_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return task_.has_value() && task_->id() == task_id;
  }
  // Null: there is none.
  const GroupTask* task() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return task_.has_value() ? &*task_ : nullptr;
  }

  const Options options_;
  WorkerSession* const coordinator_;
  std::unique_ptr<WorkerServer> server_;

  mutable Mutex mutex_;
  uint32_t last_worker_ ABSL_GUARDED_BY(mutex_) = 0;
  GroupRoster roster_ ABSL_GUARDED_BY(mutex_);
  std::optional<GroupTask> task_ ABSL_GUARDED_BY(mutex_);
  GroupDemands demands_ ABSL_GUARDED_BY(mutex_);
  GroupInfos infos_ ABSL_GUARDED_BY(mutex_);
  GroupReporter reporter_ ABSL_GUARDED_BY(mutex_);
  std::optional<EndRun> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_
