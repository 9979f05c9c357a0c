#include "ding_worker/interaction/worker_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/protocol.h"

namespace ding {
namespace {

constexpr absl::Duration kAcceptTimeout = absl::Seconds(1);   // then finished threads are joined
constexpr absl::Duration kReceiveTimeout = absl::Seconds(1);  // then stuck workers are disconnected
constexpr absl::Duration kGreetTimeout = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Create(Options options,
                                                                   Transport* transport) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, transport->Listen(options.address));
  return absl::WrapUnique(new WorkerServer(std::move(options), std::move(listener)));
}

WorkerServer::WorkerServer(Options options, std::unique_ptr<Listener> listener)
    : options_(std::move(options)), listener_(std::move(listener)) {}

WorkerServer::~WorkerServer() { Close("the run is over here"); }

void WorkerServer::Start(WorkerHandler* handler) {
  DING_CHECK(handler_ == nullptr) << "started twice";
  handler_ = handler;
  listening_ = std::thread([this] { Listen(); });
}

void WorkerServer::Listen() {
  for (int64_t number = 0;; ++number) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = listener_->Accept(kAcceptTimeout);
    JoinFinished();
    if (absl::IsDeadlineExceeded(connection.status())) continue;
    if (!connection.ok()) {
      if (!absl::IsCancelled(connection.status())) {
        Report(absl::StrCat("no further workers can join: ", connection.status().message()));
      }
      return;
    }
    MutexLock lock(&mutex_);
    if (closing_) return;
    if (peers_.size() >= static_cast<size_t>(options_.max_workers)) {
      Report(absl::StrCat("refusing ", (*connection)->peer(), ": there are ", peers_.size(),
                          " connections already"));
      continue;
    }
    Peer& peer = peers_[number];
    peer.session = Session::Start(*std::move(connection), options_.session);
    peer.thread = std::thread([this, number, session = peer.session] { Serve(number, session); });
  }
}

void WorkerServer::Report(const std::string& what) const {
  if (options_.report != nullptr) options_.report(what);
}

void WorkerServer::JoinFinished() {
  MutexLock lock(&mutex_);
  for (auto it = peers_.begin(); it != peers_.end();) {
    if (it->second.finished) {
      it->second.thread.join();  // It has nothing left to do.
      it = peers_.erase(it);
    } else {
      ++it;
    }
  }
}

void WorkerServer::Serve(int64_t peer, const std::shared_ptr<Session>& session) {
  uint32_t worker = 0;
  const absl::StatusOr<Hello> hello = Greet(session.get(), &worker);
  absl::Status why = hello.status();
  if (hello.ok()) why = ServeAdmitted(worker, *hello, session);
  {
    MutexLock lock(&mutex_);
    if (!hello.ok() && !closing_) {
      Report(absl::StrCat("refused ", session->peer(), ": ", why.message()));
    }
    workers_.erase(worker);
    changed_.SignalAll();
  }
  session->Close(why.message());
  MutexLock lock(&mutex_);
  peers_[peer].finished = true;
  changed_.SignalAll();
}

absl::StatusOr<Hello> WorkerServer::Greet(Session* session, uint32_t* worker) {
  DING_ASSIGN_OR_RETURN(const std::string bytes, session->Receive(options_.hello_timeout));
  DING_ASSIGN_OR_RETURN(const WorkerMessage message, ParseWorkerMessage(bytes));
  if (!message.has_hello()) {
    return absl::InvalidArgumentError("the first message is not Hello");
  }
  DING_RETURN_IF_ERROR(CheckHello(message.hello(), session->identity()));
  DING_ASSIGN_OR_RETURN(*worker, handler_->Admit(message.hello()));
  CoordinatorMessage answer;
  *answer.mutable_welcome() = options_.welcome;
  *answer.mutable_welcome()->mutable_version() = CurrentProtocol();
  answer.mutable_welcome()->set_worker(*worker);
  answer.mutable_welcome()->set_incarnation(handler_->incarnation());
  DING_RETURN_IF_ERROR(session->Send(answer.SerializeAsString(), kGreetTimeout));
  return message.hello();
}

absl::Status WorkerServer::CheckHello(const Hello& hello, absl::string_view identity) const {
  DING_RETURN_IF_ERROR(CheckProtocol(hello.version()));
  if (!identity.empty() && identity != RoleName(hello.role())) {
    return absl::PermissionDeniedError(
        absl::StrCat("'", hello.name(), "' says that its role is ", RoleName(hello.role()),
                     ", and has shown the token of role ", identity));
  }
  if (!hello.config_digest().empty() && hello.config_digest() != options_.config_digest) {
    return absl::FailedPreconditionError(
        absl::StrCat("the config of ", RoleName(hello.role()), " '", hello.name(), "' has digest ",
                     hello.config_digest(), ", the run's has ", options_.config_digest,
                     ": start it with the same config, or without one"));
  }
  return options_.check_hello == nullptr ? absl::OkStatus() : options_.check_hello(hello);
}

absl::Status WorkerServer::ServeAdmitted(uint32_t worker, const Hello& hello,
                                         const std::shared_ptr<Session>& session) {
  const bool works = hello.role() != Hello::OPERATOR;
  {
    MutexLock lock(&mutex_);
    if (closing_) return absl::CancelledError("the run is over");
    if (works) workers_[worker].session = session;
  }
  if (works) handler_->WorkerJoined(worker, hello, session->peer());
  absl::Status status;
  while (status.ok()) {
    status = TakesMessages(worker);
    if (!status.ok()) break;
    const absl::StatusOr<std::string> bytes = session->Receive(kReceiveTimeout);
    if (absl::IsDeadlineExceeded(bytes.status())) continue;
    status = bytes.status();
    if (status.ok()) {
      const absl::StatusOr<WorkerMessage> message = ParseWorkerMessage(*bytes);
      status = message.ok() ? Answer(worker, hello, *message, session.get()) : message.status();
    }
  }
  if (works) {
    handler_->WorkerLost(worker, status);
    if (options_.on_worker_lost != nullptr) options_.on_worker_lost(hello, status);
  }
  return status;
}

absl::Status WorkerServer::TakesMessages(uint32_t worker) const {
  MutexLock lock(&mutex_);
  const auto found = workers_.find(worker);
  return found == workers_.end() ? absl::OkStatus() : found->second.stuck;
}

absl::Status WorkerServer::Answer(uint32_t worker, const Hello& hello, const WorkerMessage& message,
                                  Session* session) {
  const bool operates = hello.role() == Hello::OPERATOR;
  CoordinatorMessage answer;
  if (message.has_status_request()) {
    *answer.mutable_run_status() = handler_->status();
  } else if (operates && message.has_operator_request()) {
    *answer.mutable_operator_reply() = handler_->Operate(message.operator_request());
  } else if (operates) {
    return absl::FailedPreconditionError(
        "an operator may ask for the status and send requests, and nothing else");
  } else {
    return handler_->Handle(worker, message);
  }
  return session->Send(answer.SerializeAsString(), kGreetTimeout);
}

void WorkerServer::Send(uint32_t worker, const CoordinatorMessage& message) {
  MutexLock lock(&mutex_);
  const auto found = workers_.find(worker);
  // Gone; the coordinator is being told.
  if (found == workers_.end() || !found->second.stuck.ok()) return;
  // The coordinator does not wait: a worker with a window full of messages is stuck. Its thread
  // disconnects it, as that takes its time.
  const absl::Status sent =
      found->second.session->Send(message.SerializeAsString(), /*timeout=*/absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(sent) || absl::IsInvalidArgument(sent)) {
    found->second.stuck = absl::ResourceExhaustedError(
        absl::StrCat("the worker does not take its messages: ", sent.message()));
  }
}

bool WorkerServer::WaitForWorkersToLeave(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  while (!workers_.empty() && changed_.WaitUntil(&mutex_, deadline)) {
  }
  return workers_.empty();
}

void WorkerServer::Close(absl::string_view reason) {
  listener_->Close();
  std::vector<std::shared_ptr<Session>> sessions;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    for (const auto& [number, peer] : peers_) sessions.push_back(peer.session);
  }
  if (listening_.joinable()) listening_.join();
  for (const std::shared_ptr<Session>& session : sessions) session->Close(reason);
  MutexLock lock(&mutex_);
  for (const auto& [number, peer] : peers_) {
    while (!peer.finished) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  }
  for (auto& [number, peer] : peers_) peer.thread.join();
  peers_.clear();
}

}  // namespace ding
