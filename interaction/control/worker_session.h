// A worker's side of its session with the coordinator. The worker joins, learns its number and the settings of
// the run, and then sends and receives messages.
//
// Ownership: owns the session.
// Threads:   thread-safe.
// Errors:    an error names the coordinator. When the session is over, every call returns the reason.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<WorkerSession> session,
//                         WorkerSession::Join(&transport, "127.0.0.1:7235", hello, {}));
//   DING_ASSIGN_OR_RETURN(const CoordinatorMessage message, session->Receive(absl::Seconds(1)));
#ifndef DING_WORKER_INTERACTION_CONTROL_WORKER_SESSION_H_
#define DING_WORKER_INTERACTION_CONTROL_WORKER_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

class WorkerSession {
 public:
  struct Options {
    // If the coordinator's Welcome has a lease, it replaces the lease of these options.
    SessionOptions session;
    // How long to wait for the coordinator to listen, and then for its answer.
    absl::Duration join_timeout = absl::Seconds(30);
  };

  // Joins the run of the coordinator at `address`. Join() fills in the version of `hello`. `transport` must outlive
  // the call.
  //   kDeadlineExceeded    nobody listens at `address`, or the coordinator does not answer
  //   kFailedPrecondition  the coordinator refuses the worker, for the reason in the message, or its protocol has
  //                        another major version
  //   kUnauthenticated     credentials were not accepted (Transport::Connect())
  //   kUnavailable         the coordinator is gone, or takes no more workers
  //   kInvalidArgument     the answer is not a Welcome, or its lease is invalid
  static absl::StatusOr<std::unique_ptr<WorkerSession>> Join(Transport* transport,
                                                             const std::string& address,
                                                             Hello hello, const Options& options);

  // The coordinator's answer to `hello`.
  const Welcome& welcome() const { return welcome_; }

  // The errors are those of Session::Send() and Session::Receive(), and for Receive() also
  //   kInvalidArgument    the coordinator sent bytes that are not a message
  //   kResourceExhausted  its message would take too much memory (protocol.h)
  absl::Status Send(const WorkerMessage& message, absl::Duration timeout);
  absl::StatusOr<CoordinatorMessage> Receive(absl::Duration timeout);

  // As the functions of Session.
  void SetReadyCallback(std::function<void()> ready) {
    session_->SetReadyCallback(std::move(ready));
  }
  absl::Status status() const { return session_->status(); }
  void Close(absl::string_view reason) { session_->Close(reason); }

 private:
  WorkerSession(std::unique_ptr<Session> session, Welcome welcome)
      : session_(std::move(session)), welcome_(std::move(welcome)) {}

  const std::unique_ptr<Session> session_;
  const Welcome welcome_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_WORKER_SESSION_H_
