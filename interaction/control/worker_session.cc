#include "ding_worker/interaction/control/worker_session.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

// The lease in the coordinator's Welcome, or `otherwise` if it has none.
absl::StatusOr<absl::Duration> LeaseOf(const Welcome& welcome, absl::Duration otherwise) {
  if (!welcome.has_lease_seconds()) return otherwise;
  if (!(welcome.lease_seconds() >= absl::ToDoubleSeconds(kMinSessionLease))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the coordinator asks for a lease of ", welcome.lease_seconds(),
                     " seconds, expected ", absl::ToDoubleSeconds(kMinSessionLease), " or more"));
  }
  return absl::Seconds(welcome.lease_seconds());
}

absl::StatusOr<Welcome> AskToJoin(const Hello& hello, const WorkerSession::Options& options,
                                  Session* session) {
  const absl::Duration timeout = options.join_timeout;
  WorkerMessage message;
  *message.mutable_hello() = hello;
  DING_RETURN_IF_ERROR(session->Send(message.SerializeAsString(), timeout));
  absl::StatusOr<std::string> answer = session->Receive(timeout);
  // The coordinator refuses a worker by closing the session with a reason.
  if (absl::IsAborted(answer.status())) {
    return absl::FailedPreconditionError(answer.status().message());
  }
  DING_RETURN_IF_ERROR(answer.status());
  DING_ASSIGN_OR_RETURN(CoordinatorMessage welcome, ParseCoordinatorMessage(*answer));
  if (!welcome.has_welcome()) {
    return absl::InvalidArgumentError("the coordinator did not answer with a Welcome");
  }
  DING_RETURN_IF_ERROR(CheckProtocol(welcome.welcome().version()));
  DING_ASSIGN_OR_RETURN(const absl::Duration lease,
                        LeaseOf(welcome.welcome(), options.session.lease));
  session->set_lease(lease);
  session->Admit();
  return *std::move(welcome.mutable_welcome());
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSession>> WorkerSession::Join(Transport* transport,
                                                                   const std::string& address,
                                                                   Hello hello,
                                                                   const Options& options) {
  DING_RETURN_IF_ERROR(CheckSessionOptions(options.session));
  *hello.mutable_version() = CurrentProtocol();
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                        transport->Connect(address, options.join_timeout));
  // Until the Welcome, join_timeout and not the lease limits how long the worker waits.
  SessionOptions joining = options.session;
  joining.lease += options.join_timeout;
  joining.first_window_bytes = std::max(joining.first_window_bytes, kMaxWelcomeBytes);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                        Session::Start(std::move(connection), joining));
  absl::StatusOr<Welcome> welcome = AskToJoin(hello, options, session.get());
  if (!welcome.ok()) {
    session->Close("could not join");
    return Annotate(welcome.status(), absl::StrCat("joining the run at ", address));
  }
  return absl::WrapUnique(new WorkerSession(std::move(session), *std::move(welcome)));
}

absl::Status WorkerSession::Send(const WorkerMessage& message, absl::Duration timeout) {
  return session_->Send(message.SerializeAsString(), timeout);
}

absl::StatusOr<CoordinatorMessage> WorkerSession::Receive(absl::Duration timeout) {
  DING_ASSIGN_OR_RETURN(const std::string message, session_->Receive(timeout));
  return ParseCoordinatorMessage(message);
}

}  // namespace ding
