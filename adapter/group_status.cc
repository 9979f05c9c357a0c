#include "ding_worker/adapter/group_status.h"

#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

// Returns what the learner waits for; empty if it is training.
std::string WaitsFor(const GroupRoster::Learner& learner, const GroupTask* task) {
  switch (learner.state) {
    case GroupRoster::State::kIdle:
      return "a task";
    case GroupRoster::State::kStarting:
      return "its own start";
    case GroupRoster::State::kReady:
      return "the group";
    case GroupRoster::State::kMember:
      return task != nullptr && task->running() ? "" : "the end of the last generation";
    case GroupRoster::State::kFailed:
      return "the next task, because this one failed here";
  }
  return "";
}

}  // namespace

void FillLearnerStatus(uint32_t worker, const GroupRoster::Learner& learner, const GroupTask* task,
                       const Clock* clock, WorkerStatus* status) {
  status->set_worker(worker);
  status->set_name(learner.hello.name());
  status->set_role(learner.hello.role());
  status->set_peer(learner.peer);
  status->set_pid(learner.hello.pid());
  *status->mutable_resources() = learner.hello.resources();
  status->set_alive_seconds(
      absl::ToDoubleSeconds(absl::Nanoseconds(clock->MonotonicNanos() - learner.joined_nanos)));
  if (task != nullptr && learner.state != GroupRoster::State::kIdle) {
    status->set_task_id(task->id());
  }
  status->set_waits_for(WaitsFor(learner, task));
}

GroupReporter::GroupReporter(absl::Duration period, const Clock* clock)
    : period_(period), clock_(clock), since_report_(clock) {}

std::optional<GroupStatus> GroupReporter::Next(const GroupRoster& roster, const GroupTask* task) {
  if (since_report_.Elapsed() < period_) return std::nullopt;
  std::vector<std::pair<uint32_t, std::string>> now;
  for (const auto& [worker, learner] : roster.learners()) {
    now.emplace_back(worker, WaitsFor(learner, task));
  }
  if (now == reported_) return std::nullopt;
  GroupStatus group;
  for (const auto& [worker, learner] : roster.learners()) {
    if (group.member_size() == kMaxGroupMembers) break;
    FillLearnerStatus(worker, learner, task, clock_, group.add_member());
    if (group.ByteSizeLong() <= kMaxGroupStatusBytes) continue;
    group.mutable_member()->RemoveLast();
    break;
  }
  reported_ = std::move(now);
  since_report_ = Timer(clock_);
  return group;
}

}  // namespace ding
