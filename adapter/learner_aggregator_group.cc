// The generations of a learner aggregator's group: when one forms, breaks and ends. The messages are in learner_aggregator.cc.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/adapter/learner_aggregator.h"
#include "ding_worker/base/log.h"
#include "ding_worker/interaction/control/message_checks.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {

using State = GroupRoster::State;

void LearnerAggregator::Advance() {
  if (!task_.has_value() || end_.has_value()) return;
  for (const uint32_t worker : task_->Late(roster_)) {
    DING_LOG(WARNING) << NameOf(worker) << " did not leave the last generation within "
                      << options_.form_timeout << ": it is given the task anew";
    StartLearner(worker);
  }
  const GroupTask::Step step = task_->NextStep(roster_);
  switch (step.kind) {
    case GroupTask::Step::Kind::kWait:
      break;
    case GroupTask::Step::Kind::kForm:
      FormGeneration();
      break;
    case GroupTask::Step::Kind::kBreak:
      BreakGeneration("another learner has come");
      break;
    case GroupTask::Step::Kind::kFail:
      FailTask(step.failure);
      break;
  }
}

void LearnerAggregator::FormGeneration() {
  task_->BeginGeneration(roster_);
  const std::vector<uint32_t>& members = task_->members();
  roster_.BeginGeneration(members);
  demands_.BeginGeneration(members);
  infos_.BeginGeneration(members);
  std::vector<std::string> names;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    names.push_back(NameOf(members[rank]));
    CoordinatorMessage message;
    *message.mutable_form_group() = task_->FormOf(rank);
    server_->Send(members[rank], message);
  }
  DING_LOG(INFO) << task_->id() << ": generation " << task_->generation() << " of "
                 << members.size() << " learners: " << absl::StrJoin(names, ", ");
  DING_LOG_IF(WARNING, static_cast<int>(members.size()) < options_.learner_num)
      << members.size() << " learners learn together, expected " << options_.learner_num;
  if (task_->generation() == 1) {
    WorkerMessage message;
    message.mutable_task_started()->set_task_id(task_->id());
    Send(message);
  }
}

void LearnerAggregator::BreakGeneration(const std::string& why) {
  if (!task_->running()) return;
  DING_LOG(INFO) << task_->id() << ": generation " << task_->generation() << " is over: " << why;
  task_->EndGeneration();
  CoordinatorMessage message;
  message.mutable_break_group()->set_task_id(task_->id());
  message.mutable_break_group()->set_generation(task_->generation());
  for (const uint32_t worker : roster_.InState(State::kMember)) server_->Send(worker, message);
  demands_.EndGeneration();
  // If rank 0 has sent the last report of the run, it is passed on now: the others may never send theirs.
  const std::optional<LearnerInfo> last = infos_.LastOfRun();
  if (last.has_value() && roster_.Has(task_->members().front())) {
    WorkerMessage done;
    *done.mutable_learner_info() = *last;
    Send(done);
  }
  infos_.EndGeneration();
}

void LearnerAggregator::FailTask(const absl::Status& why) {
  RefuseTask(task_->id(), why);
  CloseTask();
}

void LearnerAggregator::RefuseTask(const std::string& task_id, const absl::Status& why) {
  WorkerMessage message;
  message.mutable_task_failed()->set_task_id(task_id);
  message.mutable_task_failed()->set_code(static_cast<int>(why.code()));
  message.mutable_task_failed()->set_message(std::string(why.message()));
  Send(message);
}

void LearnerAggregator::CloseTask() {
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id(task_->id());
  for (const auto& [worker, learner] : roster_.learners()) {
    if (learner.state != State::kIdle) server_->Send(worker, message);
    roster_.SetState(worker, State::kIdle);
  }
  task_.reset();
  demands_.EndTask();
  infos_.EndGeneration();
}

void LearnerAggregator::SendToBusy(const CoordinatorMessage& message) {
  for (const auto& [worker, learner] : roster_.learners()) {
    if (learner.state != State::kIdle) server_->Send(worker, message);
  }
}

void LearnerAggregator::SendResources() {
  WorkerMessage message;
  *message.mutable_resources() = roster_.resources();
  Send(message);
}

void LearnerAggregator::ReportGroup() {
  std::optional<GroupStatus> status = reporter_.Next(roster_, task());
  if (!status.has_value()) return;
  WorkerMessage message;
  *message.mutable_group_status() = *std::move(status);
  Send(message);
}

const std::string& LearnerAggregator::NameOf(uint32_t worker) const {
  return roster_.Find(worker).hello.name();
}

bool LearnerAggregator::IsMember(uint32_t worker) const {
  return roster_.Has(worker) && roster_.Find(worker).state == State::kMember && task_->running();
}

RunStatus LearnerAggregator::status() const {
  MutexLock lock(&mutex_);
  return StatusLocked();
}

RunStatus LearnerAggregator::StatusLocked() const {
  RunStatus status;
  status.set_run(coordinator_->welcome().run());
  for (const auto& [worker, learner] : roster_.learners()) {
    FillLearnerStatus(worker, learner, task(), options_.clock, status.add_worker());
  }
  return status;
}

}  // namespace ding
