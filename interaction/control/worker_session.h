// A worker's session with the coordinator. The worker joins, learns its number and the settings of
// the run, and then sends and receives messages. Everything else is as in Session.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<WorkerSession> session,
//                         WorkerSession::Join(&transport, "127.0.0.1:7235", hello, {}));
//   DING_ASSIGN_OR_RETURN(const CoordinatorMessage message, session->Receive(absl::Seconds(1)));
#ifndef DING_WORKER_INTERACTION_CONTROL_WORKER_SESSION_H_
#define DING_WORKER_INTERACTION_CONTROL_WORKER_SESSION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

class WorkerSession : public Session {
 public:
  struct Options {
    // If the coordinator's Welcome has a lease, it replaces the lease of these options.
    SessionOptions session;
    // How long to wait for the coordinator to listen, and then for its answer.
    absl::Duration join_timeout = absl::Seconds(30);
  };

  // Joins the run of the coordinator at `address`. Join() fills in the version of `hello`.
  // `transport` must outlive the call.
  //   kDeadlineExceeded    nobody listens at `address`, or the coordinator does not answer
  //   kFailedPrecondition  the coordinator refuses the worker, for the reason in the message, or
  //                        its protocol has another major version
  //   kUnauthenticated     credentials were not accepted (Transport::Connect())
  //   kUnavailable         the coordinator is gone, or takes no more workers
  //   kInvalidArgument     the answer is not a Welcome, or its lease is invalid
  static absl::StatusOr<std::unique_ptr<WorkerSession>> Join(Transport* transport,
                                                             const std::string& address,
                                                             Hello hello, const Options& options);

  // The coordinator's answer to `hello`.
  const Welcome& welcome() const { return welcome_; }

  absl::Status Send(const WorkerMessage& message, absl::Duration timeout) {
    return Session::Send(message.SerializeAsString(), timeout);
  }
  // Returns the errors of Session::Receive(), and
  //   kInvalidArgument    the coordinator sent bytes that are not a message
  //   kResourceExhausted  its message would take too much memory (protocol.h)
  absl::StatusOr<CoordinatorMessage> Receive(absl::Duration timeout);

 private:
  using Session::Session;

  // Sends `hello`, and takes the Welcome.
  absl::Status AskToJoin(const Hello& hello, const Options& options);

  Welcome welcome_;  // does not change after Join()
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_WORKER_SESSION_H_
