#include "ding_worker/collector/comm/collector_slave.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

void ToReport(const CollectorProgress& progress, ProgressReport* report) {
  report->set_cur_episode(progress.cur_episode);
  report->set_cur_sample(progress.cur_sample);
  report->set_cur_step(progress.cur_step);
}

}  // namespace

void CollectorSlave::ResetTask(const StartTask& start) {
  policy_ = start.collector().policy();
  // Versions that come later are told apart by it.
  policy_.set_policy_id(start.collector().policy_id());
  progress_ = CollectorProgress();
  // What a closed task announced is dropped, and not always acknowledged.
  acknowledged_ = announced_;
}

void CollectorSlave::Take(const CoordinatorMessage& message) {
  if (message.has_collector_data_ack()) {
    acknowledged_ = std::max(acknowledged_, message.collector_data_ack().sequence());
  } else if (message.has_policy_version()) {
    const PolicyVersion& policy = message.policy_version();
    if (policy.policy_id() == policy_.policy_id() && policy.version() > policy_.version()) {
      policy_ = policy;
    }
  }
}

absl::Status CollectorSlave::Announce(std::string items, const CollectorProgress& progress) {
  WorkerMessage message;
  CollectorData* const data = message.mutable_collector_data();
  data->set_task_id(task_id());
  data->set_items(std::move(items));
  ToReport(progress, data->mutable_progress());
  {
    MutexLock lock(&mutex_);
    while (TaskStatusLocked().ok() && announced_ - acknowledged_ >= kMaxUnacknowledged) {
      changed_.WaitFor(&mutex_, absl::InfiniteDuration());  // Closing the task wakes it.
    }
    DING_RETURN_IF_ERROR(TaskStatusLocked());
    progress_ = progress;
    data->set_sequence(++announced_);
  }
  const absl::Status sent = Send(message);
  if (!sent.ok()) {  // The coordinator expects the same number next.
    MutexLock lock(&mutex_);
    --announced_;
  }
  return sent;
}

absl::Status CollectorSlave::ReportStall(absl::string_view reason) {
  WorkerMessage message;
  CollectorData* const data = message.mutable_collector_data();
  data->set_task_id(task_id());
  {
    MutexLock lock(&mutex_);
    ToReport(progress_, data->mutable_progress());
  }
  data->mutable_progress()->set_stalled(std::string(reason));
  return Send(message);
}

absl::Status CollectorSlave::Finish(CollectorFinished info) {
  WorkerMessage message;
  *message.mutable_collector_finished() = std::move(info);
  message.mutable_collector_finished()->set_task_id(task_id());
  EndTask();
  return Send(message);
}

absl::StatusOr<std::optional<PolicyVersion>> CollectorSlave::NewerPolicy(uint64_t version,
                                                                         absl::Duration timeout) {
  MutexLock lock(&mutex_);
  if (policy_.version() <= version && timeout > absl::ZeroDuration()) {
    const absl::Time deadline = absl::Now() + timeout;
    while (TaskStatusLocked().ok() && policy_.version() <= version &&
           changed_.WaitUntil(&mutex_, deadline)) {
    }
  }
  DING_RETURN_IF_ERROR(TaskStatusLocked());
  if (policy_.version() <= version) return std::nullopt;
  return policy_;
}

}  // namespace ding
