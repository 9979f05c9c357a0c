#include "ding_worker/learner/comm/learner_slave.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

void LearnerSlave::ResetTask(const StartTask&) { data_.clear(); }

void LearnerSlave::Take(const CoordinatorMessage& message) {
  if (message.has_learner_data() && IsTask(message.learner_data().task_id())) {
    data_.push_back(message.learner_data());
  }
}

absl::StatusOr<uint64_t> LearnerSlave::Demand(int64_t batch_size, int32_t batches,
                                              int64_t train_iter) {
  WorkerMessage message;
  LearnerDemand* const demand = message.mutable_learner_demand();
  demand->set_task_id(task_id());
  demand->set_batch_size(batch_size);
  demand->set_batches(batches);
  demand->set_train_iter(train_iter);
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(TaskStatusLocked());
    demand->set_sequence(++demanded_);
    demand->set_read(read_);
  }
  DING_RETURN_IF_ERROR(Send(message));
  return demand->sequence();
}

absl::StatusOr<LearnerData> LearnerSlave::NextData(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const absl::Time deadline = absl::Now() + timeout;
  while (TaskStatusLocked().ok() && data_.empty() && changed_.WaitUntil(&mutex_, deadline)) {
  }
  DING_RETURN_IF_ERROR(TaskStatusLocked());
  if (data_.empty()) {
    return absl::DeadlineExceededError(
        absl::StrCat("no data within ", absl::FormatDuration(timeout)));
  }
  LearnerData data = std::move(data_.front());
  data_.pop_front();
  return data;
}

void LearnerSlave::SetRead(uint64_t sequence) {
  MutexLock lock(&mutex_);
  read_ = std::max(read_, sequence);
}

absl::Status LearnerSlave::SendInfo(LearnerInfo info) {
  WorkerMessage message;
  *message.mutable_learner_info() = std::move(info);
  message.mutable_learner_info()->set_task_id(task_id());
  if (message.learner_info().learner_done()) EndTask();
  return Send(message);
}

absl::Status LearnerSlave::SendPolicy(const PolicyVersion& policy) {
  WorkerMessage message;
  *message.mutable_policy_version() = policy;
  return Send(message);
}

}  // namespace ding
