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
// Ownership: the session and the transport outlive it. Owns its WorkerServer.
// Threads:   Run() belongs to one thread; Close() may be called by any.
// Errors:    a learner whose model is another one than the others', or that says what it cannot, is
//            disconnected with the reason: nothing goes on to the coordinator that it would not take.
//            A learner whose task fails fails the task of all.
//
// Example: adapter/example_test.cc.
#ifndef DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_
#define DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
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
  enum class LearnerState {
    kIdle,      // has no task
    kStarting,  // was given one
    kReady,     // waits for a generation
    kMember,    // is in the present one
    kFailed     // says that its task failed
  };
  struct Learner {
    Hello hello;
    std::string peer;
    int64_t joined_nanos = 0;
    LearnerState state = LearnerState::kIdle;
    GroupReady ready;
    std::deque<LearnerDemand> demands;
    std::deque<LearnerInfo> infos;
    // That it said in the present generation.
    int values = 0;
    size_t value_bytes = 0;
  };
  enum class Phase { kGathering, kRunning, kForming };
  struct Task {
    LearnerTask task;
    Phase phase = Phase::kGathering;
    int64_t since_nanos = 0;  // of the phase
    uint32_t generation = 0;
    std::vector<uint32_t> members;  // by rank
    // The one that was told to go on from the checkpoint.
    std::optional<uint32_t> resumes;
    uint64_t newest_version = 0;
    absl::Status failure;  // of the first learner that failed
  };
  // A demand that the coordinator was sent.
  struct GroupDemand {
    struct Share {
      uint32_t learner;
      uint64_t sequence;
      int64_t rows;
    };
    std::vector<Share> shares;  // by rank; none: its generation is over
    std::set<uint32_t> unread;  // who has not read its share
    bool answered = false;
  };

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
  // Each rank its rows.
  absl::Status GiveData(const LearnerData& data, const std::vector<GroupDemand::Share>& shares)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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

  void StartLearner(uint32_t worker, Learner* learner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What time brings about, and what every change may.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceGathering() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceForming() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceRunning() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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

  void EnterPhase(Phase phase) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration PhaseAge() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<uint32_t> InState(LearnerState state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsMember(uint32_t worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTask(const std::string& task_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return task_.has_value() && task_->task.task_id() == task_id;
  }
  // Checks rank 0's policy: the coordinator takes newer ones of the task's policy, under its name.
  absl::Status CheckPolicy(const PolicyVersion& version) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the coordinator can be asked for more: it has answered enough, and enough of that is read.
  bool MayDemand() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The last demand up to which all learners have read all.
  uint64_t ReadUpTo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What it needs to take part in learning; empty: it does.
  std::string WaitsFor(const Learner& learner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillLearner(uint32_t worker, const Learner& learner, WorkerStatus* status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  WorkerSession* const coordinator_;
  std::unique_ptr<WorkerServer> server_;

  mutable Mutex mutex_;
  uint32_t last_worker_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, Learner> learners_ ABSL_GUARDED_BY(mutex_);
  std::optional<Task> task_ ABSL_GUARDED_BY(mutex_);
  std::optional<EndRun> end_ ABSL_GUARDED_BY(mutex_);
  // These count over the session with the coordinator, not over a task.
  uint64_t demanded_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t read_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, GroupDemand> demands_ ABSL_GUARDED_BY(mutex_);
  // Who was in the last report, with what that one waited for.
  std::vector<std::pair<uint32_t, std::string>> reported_ ABSL_GUARDED_BY(mutex_);
  Timer since_report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_
