// The logic of LearnerAggregator, without connections, threads and locks: it handles messages of
// the coordinator and of learners, and elapsed time. Its parts are the learners (group_roster.h),
// the generations of the task and the status (group_task.h), demands and reports of training
// (group_demands.h).
//
// Ownership: objects that the two functions use must outlive it.
// Threads:   thread-compatible.
// Errors:    an error of TakeFromLearner() means that the learner has sent something that the
//            coordinator would refuse. The coordinator has not received it.
#ifndef DING_WORKER_ADAPTER_GROUP_CORE_H_
#define DING_WORKER_ADAPTER_GROUP_CORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/group_demands.h"
#include "ding_worker/adapter/group_roster.h"
#include "ding_worker/adapter/group_task.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class GroupCore {
 public:
  using ToLearner = std::function<void(uint32_t worker, const CoordinatorMessage& message)>;
  using ToCoordinator = std::function<void(const WorkerMessage& message)>;

  // `welcome` is the coordinator's Welcome to the aggregator. `report_period` is the least time
  // between two reports of the group's members.
  GroupCore(const GroupTask::Options& options, absl::Duration report_period, const Welcome& welcome,
            ToLearner to_learner, ToCoordinator to_coordinator);

  // Returns a number for a learner, or why it may not join.
  absl::StatusOr<uint32_t> Admit(const Hello& hello);
  void Join(uint32_t worker, const Hello& hello, const std::string& peer);
  void Lose(uint32_t worker, const absl::Status& why);
  absl::Status TakeFromLearner(uint32_t worker, const WorkerMessage& message);
  void TakeFromCoordinator(const CoordinatorMessage& message);
  // Takes the next step of the task, if one is due.
  void Advance();
  // Reports the group's members to the coordinator, if a report is due.
  void ReportGroup();

  // The coordinator's last message, once the run is over.
  const std::optional<EndRun>& end() const { return end_; }
  RunStatus Status() const;

 private:
  // These handle the messages of the coordinator.
  void TakeTask(const StartTask& start);
  void TakeData(const LearnerData& data);
  void TakeEnd(const EndRun& end);
  // These handle the messages of learners.
  absl::Status TakeReady(uint32_t worker, const GroupReady& ready);
  absl::Status TakeDemand(uint32_t worker, const LearnerDemand& demand);
  absl::Status TakeInfo(uint32_t worker, const LearnerInfo& info);
  void TakeFailure(uint32_t worker, const TaskFailed& failed);
  absl::Status PassOnPolicy(uint32_t worker, const PolicyVersion& version);
  absl::Status PassOnBadChunks(uint32_t worker, const BadChunks& bad);
  absl::Status PassOnValue(uint32_t worker, const GroupValue& value);

  void StartLearner(uint32_t worker);
  // Begins the next generation, of all learners that are ready.
  void FormGeneration();
  void BreakGeneration(const std::string& why);
  void SendDemands();
  void SendInfos();
  void SendResources();
  void FailTask(const absl::Status& why);
  void RefuseTask(const std::string& task_id, const absl::Status& why);
  // Ends the task: tells the learners to end their parts.
  void CloseTask();
  // To all learners that work for the task.
  void SendToBusy(const CoordinatorMessage& message);

  // The name of a learner, which must be connected.
  const std::string& NameOf(uint32_t worker) const;
  bool IsMember(uint32_t worker) const;
  bool IsTask(const std::string& task_id) const {
    return task_.has_value() && task_->id() == task_id;
  }
  // The present task, or null.
  const GroupTask* task() const { return task_.has_value() ? &*task_ : nullptr; }

  const GroupTask::Options options_;
  const uint32_t number_;  // of the aggregator, as a worker of the coordinator
  const std::string run_;
  const ToLearner to_learner_;
  const ToCoordinator to_coordinator_;
  uint32_t last_worker_ = 0;
  GroupRoster roster_;
  std::optional<GroupTask> task_;
  GroupDemands demands_;
  GroupInfos infos_;
  GroupReporter reporter_;
  std::optional<EndRun> end_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_CORE_H_
