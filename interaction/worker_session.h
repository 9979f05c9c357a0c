// A worker's side of its session with the coordinator: joins, is told its number and the run's
// settings, and then sends and receives messages.
//
// Ownership: owns the session.
// Threads:   thread-safe.
// Errors:    say which coordinator. After the session is over every call returns why.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<WorkerSession> session,
//                         WorkerSession::Join(&transport, "127.0.0.1:7235", hello, {}));
//   DING_ASSIGN_OR_RETURN(const CoordinatorMessage message, session->Receive(absl::Seconds(1)));
#ifndef DING_WORKER_INTERACTION_WORKER_SESSION_H_
#define DING_WORKER_INTERACTION_WORKER_SESSION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/session.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

class WorkerSession {
 public:
  struct Options {
    // Its lease is that of the coordinator, if that says one.
    SessionOptions session;
    // For the coordinator to listen and to answer.
    absl::Duration join_timeout = absl::Seconds(30);
  };

  // `hello` without version, which is filled in.
  //   kDeadlineExceeded    nobody listens at `address`, or does not answer
  //   kFailedPrecondition  the coordinator refuses the worker; its reason
  //   kUnauthenticated     it does not let us in, or is not who we want (Transport::Connect())
  //   kUnavailable         it is gone, or takes no more workers
  //   kInvalidArgument     what it answers is no Welcome, or one that cannot be
  static absl::StatusOr<std::unique_ptr<WorkerSession>> Join(Transport* transport,
                                                             const std::string& address,
                                                             Hello hello, const Options& options);

  const Welcome& welcome() const { return welcome_; }

  // Errors of Session::Send() and Session::Receive(), and
  //   kInvalidArgument  the coordinator sent what is no message
  absl::Status Send(const WorkerMessage& message, absl::Duration timeout);
  absl::StatusOr<CoordinatorMessage> Receive(absl::Duration timeout);

  absl::Status status() const { return session_->status(); }
  void Close(absl::string_view reason) { session_->Close(reason); }

 private:
  WorkerSession(std::unique_ptr<Session> session, Welcome welcome)
      : session_(std::move(session)), welcome_(std::move(welcome)) {}

  const std::unique_ptr<Session> session_;
  const Welcome welcome_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_WORKER_SESSION_H_
