#include "ding_worker/adapter/group_core.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {

using State = GroupRoster::State;

GroupCore::GroupCore(const GroupTask::Options& options, absl::Duration report_period,
                     const Welcome& welcome, ToLearner to_learner, ToCoordinator to_coordinator)
    : options_(options),
      number_(welcome.worker()),
      run_(welcome.run()),
      to_learner_(std::move(to_learner)),
      to_coordinator_(std::move(to_coordinator)),
      reporter_(report_period, options.clock) {}

absl::StatusOr<uint32_t> GroupCore::Admit(const Hello& hello) {
  DING_RETURN_IF_ERROR(roster_.CheckAdmissible(hello));
  return ++last_worker_;
}

void GroupCore::TakeFromCoordinator(const CoordinatorMessage& message) {
  if (message.has_start_task()) {
    TakeTask(message.start_task());
  } else if (message.has_close_task()) {
    if (IsTask(message.close_task().task_id())) CloseTask();
  } else if (message.has_learner_data()) {
    TakeData(message.learner_data());
  } else if (message.has_evaluation_result()) {
    if (IsTask(message.evaluation_result().task_id())) SendToBusy(message);
  } else if (message.has_end_run()) {
    TakeEnd(message.end_run());
  }
}

void GroupCore::Join(uint32_t worker, const Hello& hello, const std::string& peer) {
  roster_.Add(worker, hello, peer, options_.clock->MonotonicNanos());
  DING_LOG_EVENT(INFO, {EventKind::kJoin, hello.name()})
      << hello.name() << " joined the group from " << peer << ": " << roster_.size()
      << " learners of " << options_.learner_num;
  if (end_.has_value()) {
    CoordinatorMessage message;
    *message.mutable_end_run() = *end_;
    to_learner_(worker, message);
    return;
  }
  SendResources();
  if (task_.has_value()) StartLearner(worker);
}

void GroupCore::Lose(uint32_t worker, const absl::Status& why) {
  if (!roster_.Has(worker)) return;
  const std::string name = NameOf(worker);
  roster_.Remove(worker);
  if (end_.has_value()) return;
  DING_LOG(WARNING) << name << " has left the group: " << why.message();
  SendResources();
  if (!task_.has_value()) return;
  // This includes a learner on which the task has failed: it has a rank, and all would wait for it.
  const std::vector<uint32_t>& members = task_->members();
  if (std::count(members.begin(), members.end(), worker) > 0) {
    BreakGeneration(absl::StrCat(name, " is gone"));
  }
  if (task_->NeedsForCheckpoint(worker)) {
    FailTask(absl::CancelledError(
        absl::StrCat(name, " is gone, which should have loaded the checkpoint")));
  }
  Advance();
}

absl::Status GroupCore::TakeFromLearner(uint32_t worker, const WorkerMessage& message) {
  if (!roster_.Has(worker)) return absl::NotFoundError("this learner is not in the group");
  switch (message.message_case()) {
    case WorkerMessage::kGroupReady:
      return TakeReady(worker, message.group_ready());
    case WorkerMessage::kGroupValue:
      return PassOnValue(worker, message.group_value());
    case WorkerMessage::kLearnerDemand:
      return TakeDemand(worker, message.learner_demand());
    case WorkerMessage::kLearnerInfo:
      return TakeInfo(worker, message.learner_info());
    case WorkerMessage::kPolicyVersion:
      return PassOnPolicy(worker, message.policy_version());
    case WorkerMessage::kBadChunks:
      return PassOnBadChunks(worker, message.bad_chunks());
    case WorkerMessage::kTaskFailed:
      TakeFailure(worker, message.task_failed());
      return absl::OkStatus();
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a message of kind ", static_cast<int>(message.message_case()),
                   ", expected one that a learner in a group may send"));
}

void GroupCore::TakeTask(const StartTask& start) {
  if (!start.has_learner()) {
    RefuseTask(start.collector().task_id(),
               absl::FailedPreconditionError(
                   "this is a learner aggregator: expected the task of a learner"));
    return;
  }
  const absl::Status version = CheckVersion(start.learner().first_version());
  if (!version.ok()) {
    RefuseTask(start.learner().task_id(), version);
    return;
  }
  if (task_.has_value()) CloseTask();
  task_.emplace(start.learner(), number_, options_);
  DING_LOG_IF(INFO, roster_.size() < options_.learner_num)
      << start.learner().task_id() << " waits for " << options_.learner_num << " learners, "
      << roster_.size() << " are connected";
  for (const auto& [worker, learner] : roster_.learners()) StartLearner(worker);
}

void GroupCore::TakeEnd(const EndRun& end) {
  end_ = end;
  CoordinatorMessage told;
  *told.mutable_end_run() = end;
  for (const auto& [worker, learner] : roster_.learners()) to_learner_(worker, told);
}

void GroupCore::StartLearner(uint32_t worker) {
  roster_.SetState(worker, State::kStarting);
  CoordinatorMessage message;
  *message.mutable_start_task()->mutable_learner() = task_->StartOn(worker);
  to_learner_(worker, message);
}

absl::Status GroupCore::TakeReady(uint32_t worker, const GroupReady& ready) {
  if (!IsTask(ready.task_id())) return absl::OkStatus();
  const bool was_member = roster_.Find(worker).state == State::kMember;
  // The message is about a generation before the learner was given the task anew.
  if (!was_member && ready.generation() > 0) return absl::OkStatus();
  DING_RETURN_IF_ERROR(roster_.TakeReady(worker, ready, task_->generation()));
  if (was_member) {
    BreakGeneration(
        absl::StrCat(NameOf(worker), " has left it", ready.why().empty() ? "" : ": ", ready.why()));
  }
  Advance();
  return absl::OkStatus();
}

absl::Status GroupCore::TakeDemand(uint32_t worker, const LearnerDemand& demand) {
  if (!IsTask(demand.task_id()) || !IsMember(worker)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(demands_.Add(worker, demand));
  SendDemands();
  return absl::OkStatus();
}

void GroupCore::SendDemands() {
  while (std::optional<LearnerDemand> demand = demands_.Next()) {
    WorkerMessage message;
    *message.mutable_learner_demand() = *std::move(demand);
    to_coordinator_(message);
  }
}

void GroupCore::TakeData(const LearnerData& data) {
  if (!IsTask(data.task_id())) return;
  const absl::StatusOr<std::vector<GroupDemands::Share>> shares = demands_.Split(data);
  if (!shares.ok()) {
    FailTask(shares.status());
    return;
  }
  for (const GroupDemands::Share& share : *shares) to_learner_(share.learner, share.message);
  SendDemands();  // The answer makes room for demands that had to wait.
}

absl::Status GroupCore::TakeInfo(uint32_t worker, const LearnerInfo& info) {
  if (!IsTask(info.task_id()) || !IsMember(worker)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(infos_.Add(worker, info));
  SendInfos();
  return absl::OkStatus();
}

void GroupCore::SendInfos() {
  while (true) {
    absl::StatusOr<std::optional<LearnerInfo>> info = infos_.Next();
    if (!info.ok()) {
      FailTask(info.status());
      return;
    }
    if (!info->has_value()) return;
    WorkerMessage message;
    *message.mutable_learner_info() = **std::move(info);
    to_coordinator_(message);
  }
}

absl::Status GroupCore::PassOnPolicy(uint32_t worker, const PolicyVersion& version) {
  if (task_.has_value()) {
    const std::vector<uint32_t>& members = task_->members();
    if (members.empty() || worker != members.front()) return absl::OkStatus();
    DING_RETURN_IF_ERROR(task_->TakePolicy(version));
  }
  // It is sent even if the task is over, so that the coordinator deletes the stored policy.
  WorkerMessage message;
  *message.mutable_policy_version() = version;
  to_coordinator_(message);
  return absl::OkStatus();
}

absl::Status GroupCore::PassOnBadChunks(uint32_t worker, const BadChunks& bad) {
  if (!IsTask(bad.task_id()) || !IsMember(worker)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckBadChunks(bad));
  WorkerMessage message;
  *message.mutable_bad_chunks() = bad;
  to_coordinator_(message);
  return absl::OkStatus();
}

absl::Status GroupCore::PassOnValue(uint32_t worker, const GroupValue& value) {
  if (!IsTask(value.task_id()) || !IsMember(worker) || value.generation() != task_->generation()) {
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(roster_.CountValue(worker, value));
  CoordinatorMessage message;
  *message.mutable_group_value() = value;
  for (const uint32_t member : task_->members()) to_learner_(member, message);
  return absl::OkStatus();
}

void GroupCore::TakeFailure(uint32_t worker, const TaskFailed& failed) {
  if (!IsTask(failed.task_id())) return;
  const GroupRoster::Learner& learner = roster_.Find(worker);
  const bool was_joining = task_->generation() > 0 &&
                           (learner.state == State::kStarting ||
                            (learner.state == State::kReady && learner.ready.generation() == 0));
  roster_.SetState(worker, State::kFailed);
  const auto code = static_cast<absl::StatusCode>(failed.code());
  const absl::Status why(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                         absl::StrCat(NameOf(worker), ": ", failed.message()));
  DING_LOG(WARNING) << failed.task_id() << " failed: " << why;
  if (was_joining) return;  // The others go on without it.
  task_->TakeFailure(why);
  if (code != absl::StatusCode::kAborted) {
    FailTask(why);
    return;
  }
  Advance();
}

void GroupCore::Advance() {
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

void GroupCore::FormGeneration() {
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
    to_learner_(members[rank], message);
  }
  DING_LOG(INFO) << task_->id() << ": generation " << task_->generation() << " of "
                 << members.size() << " learners: " << absl::StrJoin(names, ", ");
  DING_LOG_IF(WARNING, static_cast<int>(members.size()) < options_.learner_num)
      << members.size() << " learners learn together, expected " << options_.learner_num;
  if (task_->generation() == 1) {
    WorkerMessage message;
    message.mutable_task_started()->set_task_id(task_->id());
    to_coordinator_(message);
  }
}

void GroupCore::BreakGeneration(const std::string& why) {
  if (!task_->running()) return;
  DING_LOG(INFO) << task_->id() << ": generation " << task_->generation() << " is over: " << why;
  task_->EndGeneration();
  CoordinatorMessage message;
  message.mutable_break_group()->set_task_id(task_->id());
  message.mutable_break_group()->set_generation(task_->generation());
  for (const uint32_t worker : roster_.InState(State::kMember)) to_learner_(worker, message);
  demands_.EndGeneration();
  // If rank 0 has sent the last report of the run, it is passed on now: the others may never send
  // theirs.
  const std::optional<LearnerInfo> last = infos_.LastOfRun();
  if (last.has_value() && roster_.Has(task_->members().front())) {
    WorkerMessage done;
    *done.mutable_learner_info() = *last;
    to_coordinator_(done);
  }
  infos_.EndGeneration();
}

void GroupCore::FailTask(const absl::Status& why) {
  RefuseTask(task_->id(), why);
  CloseTask();
}

void GroupCore::RefuseTask(const std::string& task_id, const absl::Status& why) {
  WorkerMessage message;
  message.mutable_task_failed()->set_task_id(task_id);
  message.mutable_task_failed()->set_code(static_cast<int>(why.code()));
  message.mutable_task_failed()->set_message(std::string(why.message()));
  to_coordinator_(message);
}

void GroupCore::CloseTask() {
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id(task_->id());
  for (const auto& [worker, learner] : roster_.learners()) {
    if (learner.state != State::kIdle) to_learner_(worker, message);
    roster_.SetState(worker, State::kIdle);
  }
  task_.reset();
  demands_.EndTask();
  infos_.EndGeneration();
}

void GroupCore::SendToBusy(const CoordinatorMessage& message) {
  for (const auto& [worker, learner] : roster_.learners()) {
    if (learner.state != State::kIdle) to_learner_(worker, message);
  }
}

void GroupCore::SendResources() {
  WorkerMessage message;
  *message.mutable_resources() = roster_.resources();
  to_coordinator_(message);
}

void GroupCore::ReportGroup() {
  std::optional<GroupStatus> status = reporter_.Next(roster_, task());
  if (!status.has_value()) return;
  WorkerMessage message;
  *message.mutable_group_status() = *std::move(status);
  to_coordinator_(message);
}

const std::string& GroupCore::NameOf(uint32_t worker) const {
  return roster_.Find(worker).hello.name();
}

bool GroupCore::IsMember(uint32_t worker) const {
  return roster_.Has(worker) && roster_.Find(worker).state == State::kMember && task_->running();
}

RunStatus GroupCore::Status() const {
  RunStatus status;
  status.set_run(run_);
  for (const auto& [worker, learner] : roster_.learners()) {
    FillLearnerStatus(worker, learner, task(), options_.clock, status.add_worker());
  }
  return status;
}

}  // namespace ding
