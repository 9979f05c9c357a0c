#include "ding_worker/adapter/learner_aggregator.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

// Run() waits at most so long before it checks what the elapsed time calls for.
constexpr absl::Duration kWaitTimeout = absl::Milliseconds(50);
// The window to the coordinator is full only if the coordinator is stuck; then the lease ends
// before this.
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
  DING_ASSIGN_OR_RETURN(std::unique_ptr<WorkerServer> server,
                        WorkerServer::Create(options.server, transport));
  return absl::WrapUnique(new LearnerAggregator(options, coordinator, std::move(server)));
}

LearnerAggregator::LearnerAggregator(const Options& options, WorkerSession* coordinator,
                                     std::unique_ptr<WorkerServer> server)
    : leave_timeout_(options.leave_timeout),
      coordinator_(coordinator),
      inbox_(std::make_shared<Inbox>()),
      server_(std::move(server)),
      core_(
          {options.learner_num, options.connect_timeout, options.form_timeout, options.admit_period,
           address(), options.clock},
          options.report_period, coordinator->welcome(),
          [this](uint32_t worker, const CoordinatorMessage& message) {
            server_->Send(worker, message);
          },
          [this](const WorkerMessage& message) { SendToCoordinator(message); }) {}

LearnerAggregator::~LearnerAggregator() { server_->Close("the aggregator is closed"); }

void LearnerAggregator::Close() { coordinator_->Close("the learner aggregator leaves the run"); }

bool LearnerAggregator::ended() const {
  MutexLock lock(&mutex_);
  return core_.end().has_value();
}

absl::StatusOr<EndRun> LearnerAggregator::Run() {
  coordinator_->SetReadyCallback([inbox = inbox_] { inbox->Wake(); });
  absl::Status status = server_->Start(this);
  while (status.ok() && !ended()) {
    TakeCalls(kWaitTimeout);
    MutexLock lock(&mutex_);
    while (!core_.end().has_value()) {
      const absl::StatusOr<CoordinatorMessage> message =
          coordinator_->Receive(absl::ZeroDuration());
      if (!message.ok()) {
        if (!absl::IsDeadlineExceeded(message.status())) status = message.status();
        break;
      }
      core_.TakeFromCoordinator(*message);
    }
    core_.Advance();
    core_.ReportGroup();
  }
  const Deadline leave = Deadline::After(leave_timeout_);
  while (ended() && !server_->WaitForWorkersToLeave(absl::ZeroDuration())) {
    if (leave.Passed()) {
      DING_LOG(WARNING) << "some learners have not left within " << leave_timeout_;
      break;
    }
    TakeCalls(std::min(kWaitTimeout, leave.Left()));
  }
  EndRun end;
  if (status.ok()) {
    MutexLock lock(&mutex_);
    end = *core_.end();
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

void LearnerAggregator::Admit(const Hello& hello, Admitted admitted) {
  inbox_->Add([this, hello, admitted = std::move(admitted)]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { admitted(core_.Admit(hello)); });
}

void LearnerAggregator::WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) {
  inbox_->Add([this, worker, hello, peer]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { core_.Join(worker, hello, peer); });
}

void LearnerAggregator::WorkerLost(uint32_t worker, const absl::Status& why) {
  inbox_->Add([this, worker, why]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { core_.Lose(worker, why); });
}

void LearnerAggregator::Handle(uint32_t worker, WorkerMessage message, Done done) {
  inbox_->Add([this, worker, message = std::move(message), done = std::move(done)]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                    if (message.has_status_request() || message.has_operator_request()) {
                      Answer(worker, message);
                      return done(absl::OkStatus());
                    }
                    done(core_.TakeFromLearner(worker, message));
                  });
}

void LearnerAggregator::Answer(uint32_t worker, const WorkerMessage& question) {
  CoordinatorMessage answer;
  if (question.has_status_request()) {
    *answer.mutable_run_status() = core_.Status();
  } else {
    OperatorReply* const reply = answer.mutable_operator_reply();
    const OperatorRequest& request = question.operator_request();
    if (!request.has_inspect() || !request.inspect().empty()) {
      reply->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
      reply->set_message(
          "this is a learner aggregator, which answers status requests only: ask the coordinator");
    }
    *reply->mutable_status() = core_.Status();
  }
  server_->Send(worker, answer);
}

RunStatus LearnerAggregator::status() const {
  MutexLock lock(&mutex_);
  return core_.Status();
}

void LearnerAggregator::SendToCoordinator(const WorkerMessage& message) {
  const absl::Status sent = coordinator_->Send(message, kSendTimeout);
  // If this fails, the session is over or its lease will end it, and Run() returns the error.
  DING_LOG_IF(WARNING, !sent.ok())
      << "cannot send a message to the coordinator: " << sent.message();
}

}  // namespace ding
