#include "ding_worker/adapter/learner_aggregator.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/deadline.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/message_checks.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

using State = GroupRoster::State;

// Run() waits at most so long before it checks what the elapsed time calls for.
constexpr absl::Duration kWaitTimeout = absl::Milliseconds(50);
// The window to the coordinator is full only if the coordinator is stuck; then the lease ends before this.
constexpr absl::Duration kSendTimeout = absl::Minutes(1);

absl::Status CheckIsLearner(const Hello& hello) {
  if (hello.role() == Hello::COLLECTOR) {
    return absl::FailedPreconditionError(
        "this is a learner aggregator: expected learners; collectors join the coordinator");
  }
  return CheckHelloFields(hello);
}

}  // namespace

// The session with the coordinator shares it, and may outlive the aggregator.
class LearnerAggregator::Inbox {
 public:
  using Call = std::function<void()>;

  void Add(Call call) {
    MutexLock lock(&mutex_);
    calls_.push_back(std::move(call));
    news_.Signal();
  }
  void Wake() {
    MutexLock lock(&mutex_);
    woken_ = true;
    news_.Signal();
  }
  // Returns the calls. Waits until there is one, or until Wake(), but not longer than `timeout`.
  std::vector<Call> Take(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    if (calls_.empty() && !woken_) news_.WaitFor(&mutex_, timeout);
    woken_ = false;
    return std::exchange(calls_, {});
  }

 private:
  Mutex mutex_;
  CondVar news_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);  // at most a few of each learner
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<LearnerAggregator>> LearnerAggregator::Create(
    Options options, WorkerSession* coordinator, Transport* transport) {
  if (coordinator == nullptr) {
    return absl::InvalidArgumentError("learner aggregator: without a session with a coordinator");
  }
  if (options.learner_num < 1 || options.connect_timeout <= absl::ZeroDuration() ||
      options.form_timeout <= absl::ZeroDuration() || options.admit_period < absl::ZeroDuration() ||
      options.leave_timeout < absl::ZeroDuration() ||
      options.report_period < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "learner aggregator: learner_num is ", options.learner_num,
        ", expected at least 1; connect_timeout is ", absl::FormatDuration(options.connect_timeout),
        " and form_timeout ", absl::FormatDuration(options.form_timeout),
        ", expected more than 0; admit_period is ", absl::FormatDuration(options.admit_period),
        ", leave_timeout ", absl::FormatDuration(options.leave_timeout), " and report_period ",
        absl::FormatDuration(options.report_period), ", expected at least 0"));
  }
  options.server.welcome = coordinator->welcome();
  options.server.check_hello = CheckIsLearner;
  if (options.server.welcome.has_lease_seconds()) {
    options.server.session.lease = absl::Seconds(options.server.welcome.lease_seconds());
  }
  auto made = absl::WrapUnique(new LearnerAggregator(options, coordinator));
  DING_ASSIGN_OR_RETURN(made->server_, WorkerServer::Create(options.server, transport));
  return made;
}

LearnerAggregator::LearnerAggregator(const Options& options, WorkerSession* coordinator)
    : options_(options),
      coordinator_(coordinator),
      inbox_(std::make_shared<Inbox>()),
      reporter_(options.report_period, options.clock) {}

LearnerAggregator::~LearnerAggregator() {
  if (server_ != nullptr) server_->Close("the aggregator is closed");  // null if Create() failed
}

void LearnerAggregator::Close() { coordinator_->Close("the learner aggregator leaves the run"); }

bool LearnerAggregator::ended() const {
  MutexLock lock(&mutex_);
  return end_.has_value();
}

absl::StatusOr<EndRun> LearnerAggregator::Run() {
  coordinator_->SetReadyCallback([inbox = inbox_] { inbox->Wake(); });
  absl::Status status = server_->Start(this);
  while (status.ok() && !ended()) {
    TakeCalls(kWaitTimeout);
    MutexLock lock(&mutex_);
    while (!end_.has_value()) {
      const absl::StatusOr<CoordinatorMessage> message =
          coordinator_->Receive(absl::ZeroDuration());
      if (!message.ok()) {
        if (!absl::IsDeadlineExceeded(message.status())) status = message.status();
        break;
      }
      TakeFromCoordinator(*message);
    }
    Advance();
    ReportGroup();
  }
  const Deadline leave = Deadline::After(options_.leave_timeout);
  while (ended() && !server_->WaitForWorkersToLeave(absl::ZeroDuration())) {
    if (leave.Passed()) {
      DING_LOG(WARNING) << "some learners have not left within " << options_.leave_timeout;
      break;
    }
    TakeCalls(std::min(kWaitTimeout, leave.Left()));
  }
  EndRun end;
  if (status.ok()) {
    MutexLock lock(&mutex_);
    end = *end_;
  }
  server_->Close(status.ok() ? end.reason() : absl::StrCat("no coordinator: ", status.message()));
  TakeCalls(absl::ZeroDuration());
  DING_RETURN_IF_ERROR(status);
  return end;
}

void LearnerAggregator::TakeCalls(absl::Duration timeout) {
  const std::vector<Inbox::Call> calls = inbox_->Take(timeout);
  MutexLock lock(&mutex_);
  for (const Inbox::Call& call : calls) call();
}

void LearnerAggregator::TakeFromCoordinator(const CoordinatorMessage& message) {
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

void LearnerAggregator::Admit(const Hello& hello, Admitted admitted) {
  inbox_->Add([this, hello, admitted = std::move(admitted)]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                    const absl::Status status = roster_.CheckAdmissible(hello);
                    admitted(status.ok() ? absl::StatusOr<uint32_t>(++last_worker_) : status);
                  });
}

void LearnerAggregator::WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) {
  inbox_->Add([this, worker, hello, peer]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { TakeJoined(worker, hello, peer); });
}

void LearnerAggregator::WorkerLost(uint32_t worker, const absl::Status& why) {
  inbox_->Add([this, worker, why]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { TakeLost(worker, why); });
}

void LearnerAggregator::Handle(uint32_t worker, WorkerMessage message, Done done) {
  inbox_->Add([this, worker, message = std::move(message), done = std::move(done)]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { done(TakeMessage(worker, message)); });
}

void LearnerAggregator::Answer(uint32_t worker, const WorkerMessage& question) {
  CoordinatorMessage answer;
  if (question.has_status_request()) {
    *answer.mutable_run_status() = StatusLocked();
  } else {
    OperatorReply* const reply = answer.mutable_operator_reply();
    const OperatorRequest& request = question.operator_request();
    if (!request.has_inspect() || !request.inspect().empty()) {
      reply->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
      reply->set_message(
          "this is a learner aggregator, which answers status requests only: ask the coordinator");
    }
    *reply->mutable_status() = StatusLocked();
  }
  server_->Send(worker, answer);
}

void LearnerAggregator::TakeJoined(uint32_t worker, const Hello& hello, const std::string& peer) {
  roster_.Add(worker, hello, peer, options_.clock->MonotonicNanos());
  DING_LOG(INFO) << hello.name() << " joined the group from " << peer << ": " << roster_.size()
                 << " learners of " << options_.learner_num;
  if (end_.has_value()) {
    CoordinatorMessage message;
    *message.mutable_end_run() = *end_;
    server_->Send(worker, message);
    return;
  }
  SendResources();
  if (task_.has_value()) StartLearner(worker);
}

void LearnerAggregator::TakeLost(uint32_t worker, const absl::Status& why) {
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

absl::Status LearnerAggregator::TakeMessage(uint32_t worker, const WorkerMessage& message) {
  if (message.has_status_request() || message.has_operator_request()) {
    Answer(worker, message);
    return absl::OkStatus();
  }
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

void LearnerAggregator::TakeTask(const StartTask& start) {
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
  task_.emplace(
      start.learner(), coordinator_->welcome().worker(),
      GroupTask::Options{options_.learner_num, options_.connect_timeout, options_.form_timeout,
                         options_.admit_period, address(), options_.clock});
  DING_LOG_IF(INFO, roster_.size() < options_.learner_num)
      << start.learner().task_id() << " waits for " << options_.learner_num << " learners, "
      << roster_.size() << " are connected";
  for (const auto& [worker, learner] : roster_.learners()) StartLearner(worker);
}

void LearnerAggregator::TakeEnd(const EndRun& end) {
  end_ = end;
  CoordinatorMessage told;
  *told.mutable_end_run() = end;
  for (const auto& [worker, learner] : roster_.learners()) server_->Send(worker, told);
}

void LearnerAggregator::StartLearner(uint32_t worker) {
  roster_.SetState(worker, State::kStarting);
  CoordinatorMessage message;
  *message.mutable_start_task()->mutable_learner() = task_->StartOn(worker);
  server_->Send(worker, message);
}

absl::Status LearnerAggregator::TakeReady(uint32_t worker, const GroupReady& ready) {
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

absl::Status LearnerAggregator::TakeDemand(uint32_t worker, const LearnerDemand& demand) {
  if (!IsTask(demand.task_id()) || !IsMember(worker)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(demands_.Add(worker, demand));
  SendDemands();
  return absl::OkStatus();
}

void LearnerAggregator::SendDemands() {
  while (std::optional<LearnerDemand> demand = demands_.Next()) {
    WorkerMessage message;
    *message.mutable_learner_demand() = *std::move(demand);
    Send(message);
  }
}

void LearnerAggregator::TakeData(const LearnerData& data) {
  if (!IsTask(data.task_id())) return;
  const absl::StatusOr<std::vector<GroupDemands::Share>> shares = demands_.Split(data);
  if (!shares.ok()) {
    FailTask(shares.status());
    return;
  }
  for (const GroupDemands::Share& share : *shares) server_->Send(share.learner, share.message);
  SendDemands();  // The answer makes room for demands that had to wait.
}

absl::Status LearnerAggregator::TakeInfo(uint32_t worker, const LearnerInfo& info) {
  if (!IsTask(info.task_id()) || !IsMember(worker)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(infos_.Add(worker, info));
  SendInfos();
  return absl::OkStatus();
}

void LearnerAggregator::SendInfos() {
  while (true) {
    absl::StatusOr<std::optional<LearnerInfo>> info = infos_.Next();
    if (!info.ok()) {
      FailTask(info.status());
      return;
    }
    if (!info->has_value()) return;
    WorkerMessage message;
    *message.mutable_learner_info() = **std::move(info);
    Send(message);
  }
}

absl::Status LearnerAggregator::PassOnPolicy(uint32_t worker, const PolicyVersion& version) {
  if (task_.has_value()) {
    const std::vector<uint32_t>& members = task_->members();
    if (members.empty() || worker != members.front()) return absl::OkStatus();
    DING_RETURN_IF_ERROR(task_->TakePolicy(version));
  }
  // It is sent even if the task is over, so that the coordinator deletes the stored policy.
  WorkerMessage message;
  *message.mutable_policy_version() = version;
  Send(message);
  return absl::OkStatus();
}

absl::Status LearnerAggregator::PassOnBadChunks(uint32_t worker, const BadChunks& bad) {
  if (!IsTask(bad.task_id()) || !IsMember(worker)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckBadChunks(bad));
  WorkerMessage message;
  *message.mutable_bad_chunks() = bad;
  Send(message);
  return absl::OkStatus();
}

absl::Status LearnerAggregator::PassOnValue(uint32_t worker, const GroupValue& value) {
  if (!IsTask(value.task_id()) || !IsMember(worker) || value.generation() != task_->generation()) {
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(roster_.CountValue(worker, value));
  CoordinatorMessage message;
  *message.mutable_group_value() = value;
  for (const uint32_t member : task_->members()) server_->Send(member, message);
  return absl::OkStatus();
}

void LearnerAggregator::TakeFailure(uint32_t worker, const TaskFailed& failed) {
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

void LearnerAggregator::Send(const WorkerMessage& message) {
  const absl::Status sent = coordinator_->Send(message, kSendTimeout);
  // If this fails, the session is over or its lease will end it, and Run() returns the error.
  if (!sent.ok())
    DING_LOG(WARNING) << "cannot send a message to the coordinator: " << sent.message();
}

}  // namespace ding
