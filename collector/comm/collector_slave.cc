#include "ding_worker/collector/comm/collector_slave.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/deadline.h"
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
  const CollectorTask& task = start.collector();
  std::vector<TaskPlayer> players(task.player().begin(), task.player().end());
  if (players.empty()) {
    players.emplace_back().set_update_policy(true);
    *players[0].mutable_policy() = task.policy();
  }
  policies_.clear();
  updates_.clear();
  for (const TaskPlayer& player : players) {
    policies_.push_back(player.policy());
    updates_.push_back(player.update_policy());
    // Versions that come later are told apart by it.
    if (player.update_policy()) policies_.back().set_policy_id(task.policy_id());
  }
  evaluates_ = task.eval_flag();
  newest_ = policies_;
  progress_ = CollectorProgress();
  max_unacknowledged_ = task.has_max_unacknowledged()
                            ? std::clamp<uint64_t>(task.max_unacknowledged(), 1, kMaxUnacknowledged)
                            : kMaxUnacknowledged;
  waits_for_each_ = task.has_max_unacknowledged() && task.max_unacknowledged() == 0;
  acts_at_random_.store(task.acts_at_random(), std::memory_order_relaxed);
  // The announcements of a closed task are dropped, and not all of them are acknowledged.
  acknowledged_ = announced_;
}

void CollectorSlave::Take(const CoordinatorMessage& message) {
  if (message.has_collector_data_ack()) {
    acknowledged_ = std::max(acknowledged_, message.collector_data_ack().sequence());
    // That of an earlier task says nothing about this one.
    if (IsTask(message.collector_data_ack().task_id()) &&
        !message.collector_data_ack().acts_at_random()) {
      acts_at_random_.store(false, std::memory_order_relaxed);
    }
  } else if (message.has_policy_version()) {
    const PolicyVersion& policy = message.policy_version();
    for (size_t i = 0; i < policies_.size(); ++i) {
      if (updates_[i] && policy.policy_id() == policies_[i].policy_id() &&
          policy.version() > newest_[i].version()) {
        newest_[i] = policy;
        if (!evaluates_ || policies_[i].version() == 0) policies_[i] = policy;
      }
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
    while (TaskStatusLocked().ok() && announced_ - acknowledged_ >= max_unacknowledged_) {
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
    return sent;
  }
  MutexLock lock(&mutex_);
  // A task that is closed meanwhile is found out by the next call: these rows are announced.
  while (waits_for_each_ && TaskStatusLocked().ok() && announced_ > acknowledged_) {
    changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  }
  return absl::OkStatus();
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

absl::StatusOr<std::optional<PolicyVersion>> CollectorSlave::NewerPolicy(int player,
                                                                         uint64_t version,
                                                                         absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const auto index = static_cast<size_t>(player);
  if (index >= policies_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the policy of player ", player, " in a task of ", policies_.size()));
  }
  if (NewerLocked(index, version) == nullptr && timeout > absl::ZeroDuration()) {
    const Deadline deadline = Deadline::After(timeout);
    while (TaskStatusLocked().ok() && NewerLocked(index, version) == nullptr &&
           changed_.WaitUntil(&mutex_, deadline)) {
    }
  }
  DING_RETURN_IF_ERROR(TaskStatusLocked());
  const PolicyVersion* const newer = NewerLocked(index, version);
  if (newer == nullptr) return std::nullopt;
  return *newer;
}

const PolicyVersion* CollectorSlave::NewerLocked(size_t player, uint64_t version) const {
  if (policies_[player].version() > version) return &policies_[player];
  return newest_[player].version() > version ? &newest_[player] : nullptr;
}

bool CollectorSlave::FollowsPolicy(int player) const {
  MutexLock lock(&mutex_);
  return updates_[static_cast<size_t>(player)];
}

}  // namespace ding
