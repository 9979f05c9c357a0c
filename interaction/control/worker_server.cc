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
#include "ding_worker/interaction/control/session_pump.h"

namespace ding {
namespace {

// How often the server looks for peers whose time is over.
constexpr absl::Duration kSweepPeriod = absl::Milliseconds(100);
// A session or a connection that began to close this long ago can be destroyed without waiting for
// its peer.
constexpr absl::Duration kLeaveTime = absl::Milliseconds(1600);
// The largest number of connections without a session that may be closing at a time. Beyond it, the
// listening thread waits until the oldest one has closed.
constexpr size_t kMaxDismissed = 256;
// Connections that are accepted before the server's thread does its other work.
constexpr int kAcceptBurst = 64;
constexpr size_t kMaxReportBytes = 1000;
// What Welcome() adds to a Welcome, and its frame.
constexpr int64_t kWelcomeOverheadBytes = 256;
constexpr absl::string_view kHandler = "the handler of the workers";

// The server that calls its handler or a callback on this thread.
thread_local const WorkerServer* calling = nullptr;

// Calls a function without a result, which must not close `server`.
template <typename Function>
absl::Status Call(const WorkerServer* server, absl::string_view what, const Function& function) {
  const WorkerServer* const before = std::exchange(calling, server);
  const absl::Status status = CallUser(what, [&function] {
    function();
    return absl::OkStatus();
  });
  calling = before;
  return status;
}

}  // namespace

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
  listener_->SetReadyCallback([this] {
    MutexLock lock(&mutex_);
    accepts_ = true;
    work_.Signal();
  });
  DING_ASSIGN_OR_RETURN(thread_, StartThread("workers", [this] { Run(); }));
  return absl::OkStatus();
}

void WorkerServer::Run() {
  Deadline next_sweep = Deadline::After(kSweepPeriod);
  while (true) {
    bool accepts = false;
    std::deque<int64_t> queue;
    {
      MutexLock lock(&mutex_);
      while (!closing_ && !accepts_ && queue_.empty() && work_.WaitUntil(&mutex_, next_sweep)) {
      }
      if (closing_) return;
      accepts = std::exchange(accepts_, false);
      queue.swap(queue_);
    }
    if (accepts) Accept();
    for (const int64_t number : queue) {
      MutexLock lock(&mutex_);
      if (Peer* const peer = Find(number); peer != nullptr) Advance(peer);
    }
    if (!next_sweep.Passed()) continue;
    Sweep();
    next_sweep = Deadline::After(kSweepPeriod);
  }
}

void WorkerServer::Accept() {
  for (int i = 0; i < kAcceptBurst; ++i) {
    absl::StatusOr<std::unique_ptr<Connection>> connection =
        listener_->Accept(absl::ZeroDuration());
    if (!connection.ok()) {
      if (!absl::IsCancelled(connection.status()) &&
          !absl::IsDeadlineExceeded(connection.status())) {
        Report(absl::StrCat("no further workers can join: ", connection.status().message()));
      }
      return;
    }
    const std::string peer = (*connection)->peer();
    const absl::Status added = AddPeer(&*connection);
    if (added.ok()) continue;
    Report(absl::StrCat("refusing ", peer, ": ", added.message()));
    if (*connection == nullptr) continue;
    (*connection)->BeginClose();
    dismissed_.emplace_back(Deadline::After(kLeaveTime), *std::move(connection));
    if (dismissed_.size() > kMaxDismissed) dismissed_.pop_front();
  }
  MutexLock lock(&mutex_);
  accepts_ = true;
}

absl::Status WorkerServer::AddPeer(std::unique_ptr<Connection>* connection) {
  MutexLock lock(&mutex_);
  if (closing_) return absl::CancelledError("the run is over");
  if (peers_.size() >= static_cast<size_t>(options_.max_workers)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are already ", peers_.size(), " connections"));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                        Session::Start(std::move(*connection), options_.session));
  const int64_t number = ++last_number_;
  Peer& peer = peers_[number];
  peer.number = number;
  peer.session = std::move(session);
  peer.until = Deadline::After(options_.hello_timeout);
  peer.session->SetReadyCallback([this, number] {
    MutexLock lock(&mutex_);
    Peer* const ready = Find(number);
    if (closing_ || ready == nullptr) return;
    ready->state == Peer::State::kServed ? Advance(ready) : Enqueue(ready);
  });
  return absl::OkStatus();
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
  Call(this, "report", [&] { options_.report(line); }).IgnoreError();
}

WorkerServer::Peer* WorkerServer::Find(int64_t number) {
  const auto found = peers_.find(number);
  return found == peers_.end() ? nullptr : &found->second;
}

void WorkerServer::Enqueue(Peer* peer) {
  queue_.push_back(peer->number);
  work_.Signal();
}

void WorkerServer::Advance(Peer* peer) {
  peer->again = true;
  if (peer->advancing) return;
  peer->advancing = true;
  while (peer->again && !closing_ && peer->state != Peer::State::kLeaving) {
    peer->again = false;
    absl::Status status = peer->why;
    if (status.ok() && peer->handling) {
      if (!peer->session->exhausted()) continue;
      status = peer->session->status();
    }
    mutex_.Unlock();
    if (status.ok()) status = TakeNext(peer);
    if (!status.ok()) {
      TellLost(*peer, status);
      peer->session->BeginClose(status.message());
    }
    mutex_.Lock();
    if (status.ok()) continue;
    if (peer->state == Peer::State::kServed) served_.erase(**peer->worker);
    peer->state = Peer::State::kLeaving;
    peer->until = Deadline::After(kLeaveTime);
    changed_.SignalAll();
  }
  peer->advancing = false;
  if (closing_) changed_.SignalAll();
}

absl::Status WorkerServer::TakeNext(Peer* peer) {
  if (peer->state == Peer::State::kAdmitted) return Welcome(peer);
  const absl::StatusOr<std::string> bytes = peer->session->Receive(absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(bytes.status())) return absl::OkStatus();
  DING_RETURN_IF_ERROR(bytes.status());
  DING_ASSIGN_OR_RETURN(WorkerMessage message, ParseWorkerMessage(*bytes));
  if (peer->state == Peer::State::kServed) return Handle(peer, std::move(message));
  if (message.has_hello()) return TakeHello(peer, message.hello());
  return absl::InvalidArgumentError("the first message is not Hello");
}

absl::Status WorkerServer::TakeHello(Peer* peer, const Hello& hello) {
  DING_RETURN_IF_ERROR(CheckHello(hello, peer->session->identity()));
  {
    MutexLock lock(&mutex_);
    peer->state = Peer::State::kAdmitted;
    peer->hello = hello;
    peer->handling = true;
  }
  return Call(this, kHandler, [&] {
    handler_->Admit(hello, [this, number = peer->number](absl::StatusOr<uint32_t> worker) {
      MutexLock lock(&mutex_);
      Peer* const admitted = Find(number);
      if (closing_ || admitted == nullptr) return;
      admitted->worker = std::move(worker);
      admitted->handling = false;
      Enqueue(admitted);
    });
  });
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
  absl::Status accepted;
  DING_RETURN_IF_ERROR(Call(this, "check_hello", [&] { accepted = options_.check_hello(hello); }));
  return accepted;
}

absl::Status WorkerServer::Welcome(Peer* peer) {
  CoordinatorMessage answer;
  *answer.mutable_welcome() = options_.welcome;
  *answer.mutable_welcome()->mutable_version() = CurrentProtocol();
  const Hello& hello = peer->hello;
  uint32_t worker = 0;
  {
    MutexLock lock(&mutex_);
    DING_ASSIGN_OR_RETURN(worker, *peer->worker);
    peer->place = FreePlace(hello.role(), hello.has_previous_place()
                                              ? std::optional<uint32_t>(hello.previous_place())
                                              : std::nullopt);
    answer.mutable_welcome()->set_worker(worker);
    answer.mutable_welcome()->set_place(peer->place);
  }
  DING_RETURN_IF_ERROR(Call(
      this, kHandler, [&] { answer.mutable_welcome()->set_incarnation(handler_->incarnation()); }));
  peer->session->Admit();
  // No wait: what a peer takes before it is admitted was said with its Hello.
  DING_RETURN_IF_ERROR(peer->session->Send(answer.SerializeAsString(), absl::ZeroDuration()));
  {
    MutexLock lock(&mutex_);
    served_[worker] = peer;
  }
  absl::Status joined;
  if (hello.role() != Hello::OPERATOR) {
    joined =
        Call(this, kHandler, [&] { handler_->WorkerJoined(worker, hello, peer->session->peer()); });
  }
  MutexLock lock(&mutex_);
  peer->state = Peer::State::kServed;
  peer->why.Update(joined);
  peer->again = true;  // for what it has sent meanwhile
  return absl::OkStatus();
}

uint32_t WorkerServer::FreePlace(Hello::Role role, std::optional<uint32_t> previous) const {
  std::set<uint32_t> taken;
  for (const auto& [worker, peer] : served_) {
    if (peer->hello.role() == role) taken.insert(peer->place);
  }
  if (previous.has_value() && *previous < static_cast<uint32_t>(options_.max_workers) &&
      taken.count(*previous) == 0) {
    return *previous;
  }
  uint32_t place = 0;
  while (taken.count(place) > 0) ++place;
  return place;
}

void WorkerServer::Sweep() {
  std::vector<std::shared_ptr<Session>> gone;  // They are destroyed without the mutex.
  {
    MutexLock lock(&mutex_);
    // Only this thread adds and removes peers.
    for (auto it = peers_.begin(); it != peers_.end();) {
      Peer& peer = it->second;
      if (peer.state == Peer::State::kGreeted && peer.until.Passed()) {
        peer.why = absl::DeadlineExceededError(
            absl::StrCat("it sent no Hello within ", absl::FormatDuration(options_.hello_timeout)));
        Advance(&peer);
      }
      if (peer.state == Peer::State::kLeaving && peer.until.Passed() && !peer.advancing) {
        gone.push_back(std::move(peer.session));
        it = peers_.erase(it);
      } else {
        ++it;
      }
    }
  }
  while (!dismissed_.empty() && dismissed_.front().first.Passed()) dismissed_.pop_front();
}

absl::Status WorkerServer::Handle(Peer* peer, WorkerMessage message) {
  const bool operates = peer->hello.role() == Hello::OPERATOR;
  if (operates && !message.has_status_request() && !message.has_operator_request()) {
    return absl::FailedPreconditionError(
        "an operator may ask for the status and send requests, but nothing else");
  }
  if (!operates && message.has_operator_request()) {
    return absl::PermissionDeniedError("only an operator may send requests to the run");
  }
  {
    MutexLock lock(&mutex_);
    peer->handling = true;
  }
  return Call(this, kHandler, [&] {
    handler_->Handle(**peer->worker, std::move(message),
                     [this, number = peer->number](const absl::Status& done) {
                       MutexLock lock(&mutex_);
                       Peer* const handled = Find(number);
                       if (handled == nullptr) return;
                       handled->handling = false;
                       handled->why.Update(done);
                       Advance(handled);
                     });
  });
}

void WorkerServer::TellLost(const Peer& peer, const absl::Status& why) {
  // Like an operator who no longer waits for the connection.
  if (absl::IsUnavailable(why) && !peer.session->has_heard()) return;
  if (peer.state != Peer::State::kServed) {
    return Report(absl::StrCat("refused ", peer.session->peer(), ": ", why.message()));
  }
  if (peer.hello.role() == Hello::OPERATOR) return;
  const absl::Status told = Call(this, kHandler, [&] { handler_->WorkerLost(**peer.worker, why); });
  if (!told.ok()) Report(std::string(told.message()));
  if (options_.on_worker_lost == nullptr) return;
  const absl::Status called =
      Call(this, "on_worker_lost", [&] { options_.on_worker_lost(peer.hello, why); });
  if (!called.ok()) Report(std::string(called.message()));
}

void WorkerServer::Send(uint32_t worker, const CoordinatorMessage& message) {
  std::shared_ptr<Session> session;
  int64_t number = 0;
  {
    MutexLock lock(&mutex_);
    const auto found = served_.find(worker);
    // The worker is gone, and the handler is being told so; or it is stuck.
    if (found == served_.end() || !found->second->why.ok()) return;
    session = found->second->session;
    number = found->second->number;
  }
  // The handler must not wait, so a worker whose window is full is stuck.
  const absl::Status sent = session->Send(message.SerializeAsString(),
                                          /*timeout=*/absl::ZeroDuration());
  if (!absl::IsDeadlineExceeded(sent) && !absl::IsInvalidArgument(sent)) return;
  MutexLock lock(&mutex_);
  Peer* const stuck = Find(number);
  if (stuck == nullptr) return;
  stuck->why.Update(absl::ResourceExhaustedError(
      absl::StrCat("the worker does not take its messages: ", sent.message())));
  Enqueue(stuck);  // The handler must not be called here.
}

std::optional<absl::Duration> WorkerServer::LeaseLeft(uint32_t worker) {
  MutexLock lock(&mutex_);
  const auto found = served_.find(worker);
  if (found == served_.end()) return std::nullopt;
  return found->second->session->LeaseLeft();
}

bool WorkerServer::HasWorkers() const {
  return std::any_of(served_.begin(), served_.end(), [](const auto& served) {
    return served.second->hello.role() != Hello::OPERATOR;
  });
}

bool WorkerServer::WaitForWorkersToLeave(absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  MutexLock lock(&mutex_);
  while (HasWorkers() && changed_.WaitUntil(&mutex_, deadline)) {
  }
  return !HasWorkers();
}

void WorkerServer::Close(absl::string_view reason) {
  DING_CHECK(calling != this)
      << "a worker server was closed by its handler or a callback, for which Close() waits";
  MutexLock only_one(&close_mutex_);
  listener_->Close();
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    work_.Signal();
  }
  if (thread_.joinable()) thread_.join();
  std::vector<Peer*> peers;
  {
    MutexLock lock(&mutex_);
    for (auto& [number, peer] : peers_) {
      while (peer.advancing) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
      peers.push_back(&peer);
    }
  }
  // All sessions close at the same time, because each of them may take a second.
  for (Peer* const peer : peers) peer->session->BeginClose(reason);
  for (Peer* const peer : peers) {
    if (peer->state == Peer::State::kServed) TellLost(*peer, peer->session->status());
  }
  for (Peer* const peer : peers) peer->session->Close(reason);
  MutexLock lock(&mutex_);
  served_.clear();
  peers_.clear();
  dismissed_.clear();
  changed_.SignalAll();
}

}  // namespace ding
