#include "ding_worker/interaction/control/worker_session.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/control/session_pump.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSession>> WorkerSession::Join(Transport* transport,
                                                                   const std::string& address,
                                                                   Hello hello,
                                                                   const Options& options) {
  DING_RETURN_IF_ERROR(CheckSessionOptions(options.session));
  *hello.mutable_version() = CurrentProtocol();
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                        transport->Connect(address, options.join_timeout));
  DING_ASSIGN_OR_RETURN(std::shared_ptr<SessionPump> pump, SessionPump::Get());
  // Until the Welcome, join_timeout and not the lease limits how long the worker waits.
  SessionOptions joining = options.session;
  joining.lease += options.join_timeout;
  joining.first_window_bytes = std::max(joining.first_window_bytes, kMaxWelcomeBytes);
  auto session =
      absl::WrapUnique(new WorkerSession(std::move(pump), std::move(connection), joining));
  const absl::Status joined = session->AskToJoin(hello, options);
  if (!joined.ok()) {
    session->Close("could not join");
    return Annotate(joined, absl::StrCat("joining the run at ", address));
  }
  return session;
}

absl::Status WorkerSession::AskToJoin(const Hello& hello, const Options& options) {
  WorkerMessage message;
  *message.mutable_hello() = hello;
  DING_RETURN_IF_ERROR(Send(message, options.join_timeout));
  absl::StatusOr<CoordinatorMessage> answer = Receive(options.join_timeout);
  // The coordinator refuses a worker by closing the session with a reason.
  if (absl::IsAborted(answer.status())) {
    return absl::FailedPreconditionError(answer.status().message());
  }
  DING_RETURN_IF_ERROR(answer.status());
  if (!answer->has_welcome()) {
    return absl::InvalidArgumentError("the coordinator did not answer with a Welcome");
  }
  welcome_ = std::move(*answer->mutable_welcome());
  DING_RETURN_IF_ERROR(CheckProtocol(welcome_.version()));
  DING_ASSIGN_OR_RETURN(const absl::Duration lease, LeaseOf(welcome_, options.session.lease));
  set_lease(lease);
  Admit();
  return absl::OkStatus();
}

absl::StatusOr<CoordinatorMessage> WorkerSession::Receive(absl::Duration timeout) {
  DING_ASSIGN_OR_RETURN(const std::string message, Session::Receive(timeout));
  return ParseCoordinatorMessage(message);
}

}  // namespace ding
