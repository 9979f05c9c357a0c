#include "ding_worker/learner/comm/learner_slave.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// More than any learner demands ahead, and than a group has to say: what is said beyond is dropped.
constexpr size_t kMaxAnswers = 64;
constexpr size_t kMaxValues = size_t{1} << 16;

}  // namespace

void DemandProtocol::DropAnswers() {
  answers_.clear();
  unread_.clear();
}

LearnerDemand DemandProtocol::Demand() {
  LearnerDemand demand;
  demand.set_sequence(++demanded_);
  demand.set_read(read_);
  return demand;
}

void DemandProtocol::Take(const LearnerData& data) {
  if (data.sequence() <= answered_ || answers_.size() >= kMaxAnswers) return;
  answered_ = data.sequence();
  answers_.push_back(data);
}

LearnerData DemandProtocol::NextAnswer() {
  LearnerData data = std::move(answers_.front());
  answers_.pop_front();
  returned_ = data.sequence();
  if (data.items_size() > 0) unread_[returned_] = data.items_size();
  return data;
}

void DemandProtocol::CountRead(uint64_t sequence) {
  const auto found = unread_.find(sequence);
  if (found == unread_.end()) return;  // of a generation that is over
  if (--found->second == 0) unread_.erase(found);
  read_ = std::max(read_, unread_.empty() ? returned_ : unread_.begin()->first - 1);
}

Evaluation EvaluationOf(const EvaluationResult& result) {
  Evaluation evaluation;
  evaluation.train_iter = result.train_iter();
  evaluation.env_step = result.env_step();
  evaluation.episode_return.assign(result.episode_return().begin(), result.episode_return().end());
  const double sum =
      std::accumulate(evaluation.episode_return.begin(), evaluation.episode_return.end(), 0.0);
  evaluation.mean_return = result.has_eval_score()
                               ? result.eval_score()
                               : sum / std::max(1, result.episode_return_size());
  for (const InfoValue& value : result.info()) {
    evaluation.info[value.name()] = {value.mean(), value.count()};
  }
  return evaluation;
}

void LearnerSlave::ResetTask(const StartTask&) {
  demands_.DropAnswers();
  evaluations_.clear();
  group_.reset();
  group_is_over_ = false;
  values_.clear();
}

void LearnerSlave::Take(const CoordinatorMessage& message) {
  if (message.has_learner_data() && IsTask(message.learner_data().task_id())) {
    demands_.Take(message.learner_data());
  } else if (message.has_evaluation_result() && IsTask(message.evaluation_result().task_id())) {
    if (evaluations_.size() < kMaxAnswers) evaluations_.push_back(message.evaluation_result());
  } else if (message.has_form_group() && IsTask(message.form_group().task_id())) {
    TakeGroup(message.form_group());
  } else if (message.has_break_group() && IsTask(message.break_group().task_id())) {
    if (group_.has_value() && message.break_group().generation() == group_->generation()) {
      group_is_over_ = true;
      if (on_broken_ != nullptr) on_broken_();
    }
  } else if (message.has_group_value() && IsTask(message.group_value().task_id())) {
    const GroupValue& value = message.group_value();
    if (group_.has_value() && value.generation() == group_->generation()) {
      if (values_.size() < kMaxValues) values_[value.key()] = value.value();
    }
  }
}

void LearnerSlave::TakeGroup(const FormGroup& group) {
  group_ = group;
  group_is_over_ = false;
  values_.clear();
  demands_.DropAnswers();
}

absl::StatusOr<uint64_t> LearnerSlave::Demand(int64_t batch_size, int32_t batches,
                                              int64_t train_iter,
                                              absl::Span<const int64_t> collect_iters) {
  WorkerMessage message;
  LearnerDemand* const demand = message.mutable_learner_demand();
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(TaskStatusLocked());
    *demand = demands_.Demand();
  }
  demand->set_task_id(task_id());
  demand->set_batch_size(batch_size);
  demand->set_batches(batches);
  demand->mutable_collect_iter()->Add(collect_iters.begin(), collect_iters.end());
  demand->set_train_iter(train_iter);
  DING_RETURN_IF_ERROR(Send(message));
  return demand->sequence();
}

absl::StatusOr<LearnerData> LearnerSlave::NextData(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const Deadline deadline = Deadline::After(timeout);
  while (TaskStatusLocked().ok() && !group_is_over_ && !demands_.has_answer() &&
         changed_.WaitUntil(&mutex_, deadline)) {
  }
  DING_RETURN_IF_ERROR(TaskStatusLocked());
  if (group_is_over_) return absl::AbortedError("the group of learners forms anew");
  if (!demands_.has_answer()) {
    return absl::DeadlineExceededError(
        absl::StrCat("no data within ", absl::FormatDuration(timeout)));
  }
  return demands_.NextAnswer();
}

std::vector<EvaluationResult> LearnerSlave::TakeEvaluations() {
  MutexLock lock(&mutex_);
  return std::exchange(evaluations_, {});
}

void LearnerSlave::CountRead(uint64_t sequence) {
  MutexLock lock(&mutex_);
  demands_.CountRead(sequence);
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

absl::Status LearnerSlave::SendBadChunks(BadChunks bad) {
  WorkerMessage message;
  *message.mutable_bad_chunks() = std::move(bad);
  message.mutable_bad_chunks()->set_task_id(task_id());
  return Send(message);
}

absl::StatusOr<FormGroup> LearnerSlave::NextGroup(GroupReady ready, absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  uint32_t last = 0;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(TaskStatusLocked());
    if (group_.has_value()) last = group_->generation();
  }
  ready.set_task_id(task_id());
  ready.set_generation(last);
  WorkerMessage message;
  *message.mutable_group_ready() = std::move(ready);
  DING_RETURN_IF_ERROR(Send(message));
  MutexLock lock(&mutex_);
  const auto formed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return group_.has_value() && group_->generation() > last;
  };
  while (TaskStatusLocked().ok() && !formed() && changed_.WaitUntil(&mutex_, deadline)) {
  }
  DING_RETURN_IF_ERROR(TaskStatusLocked());
  if (formed()) return *group_;
  return absl::DeadlineExceededError(
      absl::StrCat("no group of learners was formed within ", absl::FormatDuration(timeout)));
}

bool LearnerSlave::GroupIsBroken() const {
  MutexLock lock(&mutex_);
  return group_is_over_;
}

void LearnerSlave::LeaveGroup() {
  MutexLock lock(&mutex_);
  group_is_over_ = true;
  changed_.SignalAll();
}

absl::Status LearnerSlave::Set(const std::string& key, const std::string& value) {
  WorkerMessage message;
  {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(TaskStatusLocked());
    message.mutable_group_value()->set_generation(group_.has_value() ? group_->generation() : 0);
  }
  message.mutable_group_value()->set_task_id(task_id());
  message.mutable_group_value()->set_key(key);
  message.mutable_group_value()->set_value(value);
  return Send(message);
}

absl::StatusOr<std::string> LearnerSlave::Get(const std::string& key, absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  MutexLock lock(&mutex_);
  while (TaskStatusLocked().ok() && !group_is_over_ && values_.count(key) == 0 &&
         changed_.WaitUntil(&mutex_, deadline)) {
  }
  DING_RETURN_IF_ERROR(TaskStatusLocked());
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  if (group_is_over_) return absl::AbortedError("the group of learners forms anew");
  return absl::DeadlineExceededError(
      absl::StrCat("no other learner said '", key, "' within ", absl::FormatDuration(timeout)));
}

}  // namespace ding
