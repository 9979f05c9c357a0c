#include "ding_worker/collector/comm/collector_slave.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

void CollectorProtocol::Start(const CollectorTask& task) {
  std::vector<TaskPlayer> players(task.player().begin(), task.player().end());
  if (players.empty()) {
    players.emplace_back().set_update_policy(true);
    *players[0].mutable_policy() = task.policy();
  }
  players_.clear();
  for (const TaskPlayer& player : players) {
    Player& known = players_.emplace_back();
    known.policy = player.policy();
    known.follows = player.update_policy();
    // Versions that come later are told apart by it.
    if (known.follows) known.policy.set_policy_id(task.policy_id());
    known.newest = known.policy;
  }
  task_id_ = task.task_id();
  evaluates_ = task.eval_flag();
  progress_.Clear();
  max_unacknowledged_ = kMaxUnacknowledged;
  if (task.has_max_unacknowledged()) {
    max_unacknowledged_ = std::min<uint64_t>(task.max_unacknowledged(), kMaxUnacknowledged);
  }
  acts_at_random_ = task.acts_at_random();
  // The announcements of a closed task are dropped, and not all of them are acknowledged.
  acknowledged_ = announced_;
}

void CollectorProtocol::Take(const CoordinatorMessage& message) {
  if (message.has_collector_data_ack()) {
    const CollectorDataAck& ack = message.collector_data_ack();
    acknowledged_ = std::max(acknowledged_, ack.sequence());
    // That of an earlier task says nothing about this one.
    if (ack.task_id() == task_id_ && !ack.acts_at_random()) acts_at_random_ = false;
  } else if (message.has_policy_version()) {
    const PolicyVersion& policy = message.policy_version();
    for (Player& player : players_) {
      if (!player.follows || policy.policy_id() != player.policy.policy_id() ||
          policy.version() <= player.newest.version()) {
        continue;
      }
      player.newest = policy;
      if (!evaluates_ || player.policy.version() == 0) player.policy = policy;
    }
  }
}

CollectorData CollectorProtocol::Announce(std::string items, const CollectorProgress& progress) {
  progress_.set_cur_episode(progress.cur_episode);
  progress_.set_cur_sample(progress.cur_sample);
  progress_.set_cur_step(progress.cur_step);
  CollectorData data;
  data.set_task_id(task_id_);
  data.set_sequence(++announced_);
  data.set_items(std::move(items));
  *data.mutable_progress() = progress_;
  return data;
}

CollectorData CollectorProtocol::Stalled(absl::string_view reason) const {
  CollectorData data;
  data.set_task_id(task_id_);
  *data.mutable_progress() = progress_;
  data.mutable_progress()->set_stalled(std::string(reason));
  return data;
}

const PolicyVersion* CollectorProtocol::NewerPolicy(int player, uint64_t version) const {
  const Player& known = players_[static_cast<size_t>(player)];
  if (known.policy.version() > version) return &known.policy;
  return known.newest.version() > version ? &known.newest : nullptr;
}

void CollectorSlave::ResetTask(const StartTask& start) { protocol_.Start(start.collector()); }

void CollectorSlave::Take(const CoordinatorMessage& message) { protocol_.Take(message); }

absl::Status CollectorSlave::Announce(std::string items, const CollectorProgress& progress) {
  WorkerMessage message;
  {
    MutexLock lock(&mutex_);
    while (TaskStatusLocked().ok() && !protocol_.MayAnnounce()) {
      changed_.WaitFor(&mutex_, absl::InfiniteDuration());  // Closing the task wakes it.
    }
    DING_RETURN_IF_ERROR(TaskStatusLocked());
    *message.mutable_collector_data() = protocol_.Announce(std::move(items), progress);
  }
  const absl::Status sent = Send(message);
  MutexLock lock(&mutex_);
  if (!sent.ok()) {
    protocol_.TakeBack();
    return sent;
  }
  // A task that is closed meanwhile is found out by the next call: these rows are announced.
  while (TaskStatusLocked().ok() && !protocol_.MayGoOn()) {
    changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  }
  return absl::OkStatus();
}

absl::Status CollectorSlave::ReportStall(absl::string_view reason) {
  WorkerMessage message;
  {
    MutexLock lock(&mutex_);
    *message.mutable_collector_data() = protocol_.Stalled(reason);
  }
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
  if (player < 0 || player >= protocol_.players()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the policy of player ", player, " in a task of ", protocol_.players()));
  }
  if (protocol_.NewerPolicy(player, version) == nullptr && timeout > absl::ZeroDuration()) {
    const Deadline deadline = Deadline::After(timeout);
    while (TaskStatusLocked().ok() && protocol_.NewerPolicy(player, version) == nullptr &&
           changed_.WaitUntil(&mutex_, deadline)) {
    }
  }
  DING_RETURN_IF_ERROR(TaskStatusLocked());
  const PolicyVersion* const newer = protocol_.NewerPolicy(player, version);
  if (newer == nullptr) return std::nullopt;
  return *newer;
}

bool CollectorSlave::FollowsPolicy(int player) const {
  MutexLock lock(&mutex_);
  return protocol_.FollowsPolicy(player);
}

bool CollectorSlave::acts_at_random() const {
  MutexLock lock(&mutex_);
  return protocol_.acts_at_random();
}

}  // namespace ding
