#include "ding_worker/coordinator/core/timed_sender.h"

#include "ding_worker/coordinator/state/task_buffer.h"

namespace ding {
namespace internal_coordinator {
namespace {

enum Stage { kPush, kSample, kPublish, kCollectTask, kEvaluate };

}  // namespace

TimedSender::TimedSender(WorkerSender* sender, const Clock* clock)
    : sender_(sender), stages_({"push", "sample", "publish", "collect_task", "evaluate"}, clock) {}

std::function<void()> TimedSender::Measure(const WorkerMessage& message, const Worker* from,
                                           int64_t came_nanos) {
  const auto since = [this](Stage stage, int64_t begun_nanos) {
    return [this, stage, begun_nanos] { stages_.AddSince(stage, begun_nanos); };
  };
  if (message.collector_data().has_sequence()) return since(kPush, came_nanos);
  if (message.has_policy_version()) return since(kPublish, came_nanos);
  if (from == nullptr || !from->task.has_value()) return [] {};
  if (message.has_learner_demand()) {
    auto& asked = asked_[from->id];
    asked.emplace_back(message.learner_demand().sequence(), came_nanos);
    // No more can wait. Demands of a task that is over get no answer.
    if (asked.size() > TaskBuffer::kMaxWaitingDemands) asked.pop_front();
  } else if (message.collector_finished().task_id() == from->task->id()) {
    return since(from->task->collects() ? kCollectTask : kEvaluate, from->task->start_nanos);
  }
  return [] {};
}

void TimedSender::Send(uint32_t worker, const CoordinatorMessage& message) {
  const auto found = message.has_learner_data() ? asked_.find(worker) : asked_.end();
  if (found != asked_.end()) {
    auto& asked = found->second;
    const uint64_t sequence = message.learner_data().sequence();
    while (!asked.empty() && asked.front().first < sequence) asked.pop_front();
    if (!asked.empty() && asked.front().first == sequence) {
      stages_.AddSince(kSample, asked.front().second);
      asked.pop_front();
    }
  }
  sender_->Send(worker, message);
}

}  // namespace internal_coordinator
}  // namespace ding
