#include "ding_worker/interaction/control/worker_server.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/control/session_budget.h"
#include "ding_worker/interaction/control/session_pump.h"

namespace ding {
namespace {

constexpr absl::Duration kAcceptTimeout = absl::Seconds(1);   // then closed connections are dropped
constexpr absl::Duration kReceiveTimeout = absl::Seconds(1);  // then stuck workers are disconnected
constexpr absl::Duration kGreetTimeout = absl::Seconds(1);    // for sending a Welcome or an answer
// How often the server looks for peers whose time is over.
constexpr absl::Duration kSweepPeriod = absl::Milliseconds(100);
// A session or a connection that began to close this long ago can be destroyed without waiting for its peer.
constexpr absl::Duration kLeaveTime = absl::Milliseconds(1600);
// The largest number of connections without a session that may be closing at a time. Beyond it, the listening
// thread waits until the oldest one has closed.
constexpr size_t kMaxDismissed = 256;
constexpr size_t kMaxReportBytes = 1000;
// The threads that gRPC may still want to start. Without them it drops work silently, and connections hang: so no
// worker takes one of the last.
constexpr int kSpareThreads = 24;
// What SendWelcome() adds to a Welcome, and its frame.
constexpr int64_t kWelcomeOverheadBytes = 256;
constexpr absl::string_view kHandler = "the handler of the workers";

// The server to which this thread belongs.
thread_local const WorkerServer* server_of_thread = nullptr;

// Like CallUser(), for a function without a result.
template <typename Function>
absl::Status Call(absl::string_view what, const Function& function) {
  return CallUser(what, [&function] {
    function();
    return absl::OkStatus();
  });
}

}  // namespace

class WorkerServer::News {
 public:
  void Add(int64_t number) {
    MutexLock lock(&mutex_);
    numbers_.push_back(number);
    added_.Signal();
  }
  void Stop() {
    MutexLock lock(&mutex_);
    stopped_ = true;
    added_.Signal();
  }
  bool stopped() const {
    MutexLock lock(&mutex_);
    return stopped_;
  }
  // Returns the next peer's number, or nothing if there is none within `timeout`.
  std::optional<int64_t> Next(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    if (numbers_.empty() && !stopped_) added_.WaitFor(&mutex_, timeout);
    if (numbers_.empty()) return std::nullopt;
    const int64_t number = numbers_.front();
    numbers_.pop_front();
    return number;
  }

 private:
  mutable Mutex mutex_;
  CondVar added_;
  std::deque<int64_t> numbers_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Create(Options options,
                                                                   Transport* transport) {
  if (transport == nullptr) {
    return absl::InvalidArgumentError("worker server: without a transport");
  }
  if (options.max_workers < 1 || options.hello_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker server: max_workers is ", options.max_workers,
                     ", expected at least 1; hello_timeout is ",
                     absl::FormatDuration(options.hello_timeout), ", expected more than 0"));
  }
  DING_RETURN_IF_ERROR(CheckSessionOptions(options.session));
  const int64_t welcome_bytes = static_cast<int64_t>(options.welcome.ByteSizeLong());
  if (welcome_bytes > kMaxWelcomeBytes - kWelcomeOverheadBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("workers get the run's config when they join: it takes ", welcome_bytes,
                     " bytes, expected at most ", kMaxWelcomeBytes - kWelcomeOverheadBytes,
                     ": keep long values, such as lists of numbers, in files"));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, transport->Listen(options.address));
  options.session.budget =
      std::make_shared<SessionBudget>(kServerSessionBytes, options.max_workers);
  return absl::WrapUnique(new WorkerServer(std::move(options), std::move(listener)));
}

WorkerServer::WorkerServer(Options options, std::unique_ptr<Listener> listener)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      news_(std::make_shared<News>()),
      reports_(kReportsPerSecond, absl::Seconds(1), Clock::Real()) {}

WorkerServer::~WorkerServer() { Close("the run is over here"); }

absl::Status WorkerServer::Start(WorkerHandler* handler) {
  if (handler == nullptr)
    return absl::InvalidArgumentError("worker server: started without a handler");
  {
    MutexLock lock(&mutex_);
    if (closing_) return absl::CancelledError("worker server: started after its end");
  }
  if (handler_ != nullptr) return absl::FailedPreconditionError("worker server: started twice");
  handler_ = handler;
  DING_ASSIGN_OR_RETURN(pump_, SessionPump::Get());
  DING_ASSIGN_OR_RETURN(greeting_, StartThread("greeting workers", [this] { Greet(); }));
  DING_ASSIGN_OR_RETURN(listening_, StartThread("listening for workers", [this] { Listen(); }));
  return absl::OkStatus();
}

void WorkerServer::Listen() {
  server_of_thread = this;
  for (int64_t number = 0;; ++number) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = listener_->Accept(kAcceptTimeout);
    while (!dismissed_.empty() && dismissed_.front().first.Passed()) dismissed_.pop_front();
    if (absl::IsDeadlineExceeded(connection.status())) continue;
    if (!connection.ok()) {
      if (!absl::IsCancelled(connection.status())) {
        Report(absl::StrCat("no further workers can join: ", connection.status().message()));
      }
      return;
    }
    const std::string peer = (*connection)->peer();
    const absl::Status added = AddPeer(number, &*connection);
    if (added.ok()) continue;
    Report(absl::StrCat("refusing ", peer, ": ", added.message()));
    if (*connection != nullptr) Dismiss(*std::move(connection));
  }
}

absl::Status WorkerServer::AddPeer(int64_t number, std::unique_ptr<Connection>* connection) {
  // Holds the lock to the end, because the first message may arrive before this returns.
  MutexLock lock(&mutex_);
  if (closing_) return absl::CancelledError("the run is over");
  if (peers_.size() >= static_cast<size_t>(options_.max_workers)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are already ", peers_.size(), " connections"));
  }
  SessionOptions options = options_.session;
  options.on_first_message = [news = news_, number] { news->Add(number); };
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                        Session::Start(std::move(*connection), options));
  Peer& peer = peers_[number];
  peer.session = std::move(session);
  peer.until = Deadline::After(options_.hello_timeout);
  return absl::OkStatus();
}

void WorkerServer::Dismiss(std::unique_ptr<Connection> connection) {
  connection->BeginClose();
  dismissed_.emplace_back(Deadline::After(kLeaveTime), std::move(connection));
  if (dismissed_.size() > kMaxDismissed) dismissed_.pop_front();
}

void WorkerServer::Report(const std::string& what) {
  if (options_.report == nullptr) return;
  const std::optional<int64_t> left_out = reports_.Pass();
  if (!left_out.has_value()) return;
  std::string line = what.substr(0, kMaxReportBytes);
  // The text may contain words of an unknown peer.
  std::replace_if(
      line.begin(), line.end(), [](char c) { return absl::ascii_iscntrl(c); }, '?');
  if (*left_out > 0) absl::StrAppend(&line, " (and ", *left_out, " other peers before)");
  // There is nobody else to tell.
  Call("report", [&] { options_.report(line); }).IgnoreError();
}

void WorkerServer::Greet() {
  server_of_thread = this;
  Deadline next_sweep = Deadline::After(absl::ZeroDuration());
  while (!news_->stopped()) {
    const std::optional<int64_t> number = news_->Next(kSweepPeriod);
    if (number.has_value()) GreetPeer(*number);
    if (!next_sweep.Passed()) continue;
    Sweep();
    next_sweep = Deadline::After(kSweepPeriod);
  }
}

void WorkerServer::Sweep() {
  std::vector<int64_t> late;
  std::vector<std::shared_ptr<Session>> leaving;
  {
    MutexLock lock(&mutex_);
    for (auto it = peers_.begin(); it != peers_.end();) {
      const auto peer = it++;
      if (peer->second.state == Peer::State::kGreeted && peer->second.until.Passed()) {
        late.push_back(peer->first);
      }
      const bool gone = peer->second.state == Peer::State::kLeaving && peer->second.until.Passed();
      if (!gone && peer->second.state != Peer::State::kFinished) continue;
      // The thread has nothing left to do.
      if (peer->second.thread.joinable()) peer->second.thread.join();
      leaving.push_back(std::move(peer->second.session));
      peers_.erase(peer);
    }
  }
  for (const int64_t number : late) {
    Refuse(number, absl::DeadlineExceededError(absl::StrCat(
                       "it sent no Hello within ", absl::FormatDuration(options_.hello_timeout))));
  }
}

void WorkerServer::Refuse(int64_t number, const absl::Status& why) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(&mutex_);
    Peer& peer = peers_[number];
    peer.state = Peer::State::kLeaving;
    peer.until = Deadline::After(kLeaveTime);
    session = peer.session;
    if (!closing_) Report(absl::StrCat("refused ", session->peer(), ": ", why.message()));
  }
  session->BeginClose(why.message());
}

void WorkerServer::GreetPeer(int64_t number) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(&mutex_);
    const auto found = peers_.find(number);
    // Its Hello may have come too late: then it was refused.
    if (found == peers_.end() || found->second.state != Peer::State::kGreeted) return;
    session = found->second.session;
  }
  uint32_t worker = 0;
  const absl::StatusOr<Hello> hello = TakeHello(session.get(), &worker);
  const absl::Status status = hello.ok() ? StartServing(number, worker, *hello) : hello.status();
  if (!status.ok()) Refuse(number, status);
}

absl::StatusOr<Hello> WorkerServer::TakeHello(Session* session, uint32_t* worker) {
  DING_ASSIGN_OR_RETURN(const std::string bytes, session->Receive(absl::ZeroDuration()));
  DING_ASSIGN_OR_RETURN(const WorkerMessage message, ParseWorkerMessage(bytes));
  if (!message.has_hello()) {
    return absl::InvalidArgumentError("the first message is not Hello");
  }
  DING_RETURN_IF_ERROR(CheckHello(message.hello(), session->identity()));
  DING_ASSIGN_OR_RETURN(*worker,
                        CallUser(kHandler, [&] { return handler_->Admit(message.hello()); }));
  return message.hello();
}

absl::Status WorkerServer::StartServing(int64_t number, uint32_t worker, const Hello& hello) {
  DING_RETURN_IF_ERROR(CheckThreads(kSpareThreads));
  MutexLock lock(&mutex_);
  if (closing_) return absl::CancelledError("the run is over");
  Peer& peer = peers_[number];
  DING_ASSIGN_OR_RETURN(peer.thread,
                        StartThread(absl::StrCat("worker '", hello.name(), "'"),
                                    [this, number, worker, hello, session = peer.session] {
                                      Serve(number, worker, hello, session);
                                    }));
  peer.state = Peer::State::kServed;
  if (hello.role() == Hello::OPERATOR) return absl::OkStatus();
  const uint32_t place = FreePlace(
      hello.role(),
      hello.has_previous_place() ? std::optional<uint32_t>(hello.previous_place()) : std::nullopt);
  Worker& joined = workers_[worker];
  joined.session = peer.session;
  joined.role = hello.role();
  joined.place = place;
  return absl::OkStatus();
}

uint32_t WorkerServer::FreePlace(Hello::Role role, std::optional<uint32_t> previous) const {
  std::set<uint32_t> taken;
  for (const auto& [number, worker] : workers_) {
    if (worker.role == role) taken.insert(worker.place);
  }
  if (previous.has_value() && *previous < static_cast<uint32_t>(options_.max_workers) &&
      taken.count(*previous) == 0) {
    return *previous;
  }
  uint32_t place = 0;
  while (taken.count(place) > 0) ++place;
  return place;
}

absl::Status WorkerServer::SendWelcome(uint32_t worker, Session* session) const {
  CoordinatorMessage answer;
  *answer.mutable_welcome() = options_.welcome;
  *answer.mutable_welcome()->mutable_version() = CurrentProtocol();
  answer.mutable_welcome()->set_worker(worker);
  {
    MutexLock lock(&mutex_);
    const auto found = workers_.find(worker);
    if (found != workers_.end()) answer.mutable_welcome()->set_place(found->second.place);
  }
  DING_RETURN_IF_ERROR(
      Call(kHandler, [&] { answer.mutable_welcome()->set_incarnation(handler_->incarnation()); }));
  return session->Send(answer.SerializeAsString(), kGreetTimeout);
}

void WorkerServer::Serve(int64_t number, uint32_t worker, const Hello& hello,
                         const std::shared_ptr<Session>& session) {
  server_of_thread = this;
  session->Admit();
  absl::Status why = SendWelcome(worker, session.get());
  if (why.ok()) {
    why = ServeAdmitted(worker, hello, session);
  } else {
    Report(absl::StrCat("refused ", session->peer(), ": ", why.message()));
  }
  {
    MutexLock lock(&mutex_);
    workers_.erase(worker);
    changed_.SignalAll();
  }
  session->Close(why.message());
  MutexLock lock(&mutex_);
  peers_[number].state = Peer::State::kFinished;
  changed_.SignalAll();
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
  if (options_.check_hello == nullptr) return absl::OkStatus();
  return CallUser("check_hello", [&] { return options_.check_hello(hello); });
}

absl::Status WorkerServer::ServeAdmitted(uint32_t worker, const Hello& hello,
                                         const std::shared_ptr<Session>& session) {
  const bool works = hello.role() != Hello::OPERATOR;
  absl::Status status;
  if (works) {
    status = Call(kHandler, [&] { handler_->WorkerJoined(worker, hello, session->peer()); });
  }
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
    const absl::Status told = Call(kHandler, [&] { handler_->WorkerLost(worker, status); });
    if (!told.ok()) Report(std::string(told.message()));
    if (options_.on_worker_lost != nullptr) {
      const absl::Status called =
          Call("on_worker_lost", [&] { options_.on_worker_lost(hello, status); });
      if (!called.ok()) Report(std::string(called.message()));
    }
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
    DING_RETURN_IF_ERROR(
        Call(kHandler, [&] { *answer.mutable_run_status() = handler_->status(); }));
  } else if (operates && message.has_operator_request()) {
    DING_RETURN_IF_ERROR(Call(kHandler, [&] {
      *answer.mutable_operator_reply() = handler_->Operate(message.operator_request());
    }));
  } else if (operates) {
    return absl::FailedPreconditionError(
        "an operator may ask for the status and send requests, but nothing else");
  } else {
    return CallUser(kHandler, [&] { return handler_->Handle(worker, message); });
  }
  return session->Send(answer.SerializeAsString(), kGreetTimeout);
}

void WorkerServer::Send(uint32_t worker, const CoordinatorMessage& message) {
  MutexLock lock(&mutex_);
  const auto found = workers_.find(worker);
  // The worker is gone, and the handler is being told so; or it is stuck.
  if (found == workers_.end() || !found->second.stuck.ok()) return;
  // The handler must not wait, so a worker whose window is full is stuck. Its own thread disconnects it, because
  // that takes time.
  const absl::Status sent =
      found->second.session->Send(message.SerializeAsString(), /*timeout=*/absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(sent) || absl::IsInvalidArgument(sent)) {
    found->second.stuck = absl::ResourceExhaustedError(
        absl::StrCat("the worker does not take its messages: ", sent.message()));
  }
}

bool WorkerServer::WaitForWorkersToLeave(absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  MutexLock lock(&mutex_);
  while (!workers_.empty() && changed_.WaitUntil(&mutex_, deadline)) {
  }
  return workers_.empty();
}

void WorkerServer::Close(absl::string_view reason) {
  DING_CHECK(server_of_thread != this)
      << "a worker server was closed by its handler or a callback, for which Close() waits";
  MutexLock only_one(&close_mutex_);
  listener_->Close();
  std::vector<std::shared_ptr<Session>> sessions;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    for (const auto& [number, peer] : peers_) sessions.push_back(peer.session);
  }
  news_->Stop();
  if (listening_.joinable()) listening_.join();
  if (greeting_.joinable()) greeting_.join();
  // All sessions close at the same time, because each of them may take a second.
  for (const std::shared_ptr<Session>& session : sessions) session->BeginClose(reason);
  for (const std::shared_ptr<Session>& session : sessions) session->Close(reason);
  MutexLock lock(&mutex_);
  for (auto& [number, peer] : peers_) {
    while (peer.state == Peer::State::kServed) {
      changed_.WaitFor(&mutex_, absl::InfiniteDuration());
    }
    if (peer.thread.joinable()) peer.thread.join();
  }
  peers_.clear();
  dismissed_.clear();
}

}  // namespace ding
