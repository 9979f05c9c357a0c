// A connection with a lease: messages arrive in order and none is missing, or both sides learn that
// the session is over. Processes of a parallel run know only by their sessions that the others live.
//
//     Send ──► window ──► frames {number, taken, window bytes, message} ──► Receive, in order
//                ▲                                                             │
//                └────────────────────────── taken ◄───────────────────────────┘
//
// The transport keeps the order and loses nothing; a connection that breaks ends its session, and a frame
// with another number than the next one is a violation that ends it, too. A session adds:
//
// - The lease. Every frame renews it, and one goes out at least every lease / 4. A side that has
//   heard nothing for the length of the lease ends the session for good, even if it was stopped
//   (SIGSTOP) for that long and finds frames waiting when it wakes. So a side whose session lives has
//   not been replaced by another one, except during a time that its own clock does not count.
// - The window: messages and bytes under way, that is sent and not yet received by the peer's user. A
//   side that wants to send more waits. The receiver says how many bytes it takes: few until Admit(). A
//   peer that exceeds its window ends the session. What has arrived is taken from the connection at once,
//   so a slow receiver keeps its lease.
// - The end with a reason, which the other side is told.
//
// The rules are in session_protocol.h, the options and bounds in session_options.h.
//
// Ownership: owns its connection. The two threads that all sessions of a process share (session_pump.h)
//            work for it.
// Threads:   thread-safe.
// Blocking:  Send() waits for room in the window, Receive() for a message; Close() wakes both.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto session, Session::Start(*std::move(connection), {}));
//   DING_RETURN_IF_ERROR(session->Send(hello.SerializeAsString(), absl::Seconds(5)));
//   DING_ASSIGN_OR_RETURN(const std::string welcome, session->Receive(absl::Seconds(5)));
//   session->Admit();
#ifndef DING_WORKER_INTERACTION_CONTROL_SESSION_H_
#define DING_WORKER_INTERACTION_CONTROL_SESSION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/control/session_options.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// OK, or kInvalidArgument with the options that are out of range.
absl::Status CheckSessionOptions(const SessionOptions& options);

class Session {
 public:
  // A session with the peer of `connection`; it begins at once.
  //   kInvalidArgument    an option is out of range
  //   kResourceExhausted  the system refuses the threads of the pump
  static absl::StatusOr<std::unique_ptr<Session>> Start(std::unique_ptr<Connection> connection,
                                                        const SessionOptions& options);
  // Closes the session as Close() does.
  virtual ~Session() = default;

  // To be called when we know that the peer is the right one: from now on it may send larger messages, and
  // more of them.
  virtual void Admit() = 0;

  // Sends `message`, after waiting for room in the window for up to `timeout`. With a timeout of zero it
  // leaves the work on the connection to the pump, and so returns within microseconds.
  //   kDeadlineExceeded  no room in the window; the message is not sent
  //   kInvalidArgument   larger than kMaxSessionMessageBytes; the session goes on
  //   otherwise          status(): the session is over
  virtual absl::Status Send(std::string message, absl::Duration timeout) = 0;

  // Returns the next message, for which it waits up to `timeout`. What came before the peer closed the
  // session, or before the connection broke, is still handed out; what came before the lease ran out is not.
  //   kDeadlineExceeded  no message came in time
  //   otherwise          status(): the session is over
  virtual absl::StatusOr<std::string> Receive(absl::Duration timeout) = 0;

  // Sets a callback for users that do not wait. After Receive() has returned kDeadlineExceeded, or if it was never
  // called, `ready` is called when Receive() would return at once. It is also called once when the session is over. A
  // thread of the pump calls it until Close() has returned. It must not wait or throw. Set it once.
  virtual void SetReadyCallback(std::function<void()> ready) = 0;
  // Whether the session is over, and everything that had arrived was received.
  virtual bool exhausted() = 0;

  // OK while the session lives, otherwise the reason why it is over, which names the peer:
  //   kCancelled    Close() was called here
  //   kAborted      the peer closed it; its reason
  //   kUnavailable  the connection broke, or the lease ran out
  //   kDataLoss     the peer sent bytes that are no frame, or another frame than the next one
  //   kFailedPrecondition  the peer's frames are of another version
  //   kResourceExhausted   the peer sent more than its window, or than the budget allows
  virtual absl::Status status() const = 0;

  // Ends the session; may be repeated. The peer is told the reason, up to 4 kB of it, behind what was
  // sent before. Waits at most a second and a half until the connection has taken it.
  virtual void Close(absl::string_view reason) = 0;
  // The same without waiting. Close() must be called later; the destructor does so, too.
  virtual void BeginClose(absl::string_view reason) = 0;

  // From now on the lease is that long; at least kMinSessionLease. A worker that joins learns the length
  // from the other side.
  virtual void set_lease(absl::Duration lease) = 0;

  // As Connection::peer() and Connection::identity() of its connection.
  virtual const std::string& peer() const = 0;
  virtual absl::string_view identity() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_H_
