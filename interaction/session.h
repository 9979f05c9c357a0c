// A connection with a lease: messages arrive exactly once and in order, or both sides learn that the
// session is over. The one mechanism by which processes of a parallel run know that the others live.
//
//     Send ──► window ──► frames {sequence, acknowledged, message} ──► Receive, in order, once
//                ▲                                                        │
//                └───────────────── acknowledged ◄────────────────────────┘
//
// Every frame renews the lease, and one goes out at least every lease / 4. A frame that is not
// acknowledged is sent again; one that comes twice has no effect, one that comes early waits. (gRPC
// loses nothing and keeps the order; the tests' transport does not.)
//
// What has arrived and what its user has taken are told apart: a slow receiver holds its sender back,
// and neither loses the lease nor has everything sent again.
//
// A side that has heard nothing for the length of the lease ends the session for good: also one
// that was stopped (SIGSTOP) for that long and finds frames waiting when it wakes. So who holds a
// session that lives has not been replaced, but for the time that its own clock cannot see.
//
// Ownership: owns its connection and two threads, which Close() joins.
// Threads:   thread-safe.
// Blocking:  Send() waits for room in the window, Receive() for a message; Close() wakes both.
//
// Example:
//   auto session = Session::Start(*std::move(connection), {});
//   DING_RETURN_IF_ERROR(session->Send(hello.SerializeAsString(), absl::Seconds(5)));
//   DING_ASSIGN_OR_RETURN(const std::string welcome, session->Receive(absl::Seconds(5)));
#ifndef DING_WORKER_INTERACTION_SESSION_H_
#define DING_WORKER_INTERACTION_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

// The largest message of a session: what a connection takes, less the session's own fields.
inline constexpr int64_t kMaxSessionMessageBytes = kMaxMessageBytes - 64;

// Of every session.
inline constexpr absl::Duration kMinSessionLease = absl::Milliseconds(20);

struct SessionOptions {
  // Without a sign of life for that long, the session is over; at least kMinSessionLease.
  absl::Duration lease = absl::Seconds(5);
  // A frame that is not acknowledged for that long is sent again.
  absl::Duration resend = absl::Milliseconds(250);
  // Messages that may be under way, at least 1: sent, and not yet received by the peer's user.
  // Whoever sends more waits. The same on both sides.
  int window = 256;
  // Judges the lease. Timeouts and resending go by the machine's clock.
  const Clock* clock = Clock::Real();
};

class Session {
 public:
  static std::unique_ptr<Session> Start(std::unique_ptr<Connection> connection,
                                        const SessionOptions& options);
  virtual ~Session() = default;  // as Close()

  //   kDeadlineExceeded  no room in the window; the message is not sent
  //   kInvalidArgument   larger than kMaxSessionMessageBytes; the session goes on
  //   else               status()
  virtual absl::Status Send(std::string message, absl::Duration timeout) = 0;

  // The next message. What came before the peer closed the session, or the connection broke, is
  // still handed out; what came before the lease ran out is not.
  //   kDeadlineExceeded  there is none
  //   else               status()
  virtual absl::StatusOr<std::string> Receive(absl::Duration timeout) = 0;

  // OK while the session lives, else why it is over. The sentence names the peer:
  //   kCancelled    Close() was called here
  //   kAborted      the peer closed it; its reason
  //   kUnavailable  the connection broke, or the lease ran out
  //   kDataLoss     the peer sent what is no frame
  virtual absl::Status status() const = 0;

  // Ends the session; may be repeated. The peer is told the reason, up to 4 kB of it, behind what was
  // sent before; this waits for at most half a second for it to have arrived.
  virtual void Close(absl::string_view reason) = 0;

  // From now on the lease is that long; at least kMinSessionLease. Whoever joins is told by whoever has the
  // other side.
  virtual void set_lease(absl::Duration lease) = 0;

  // Of the connection.
  virtual const std::string& peer() const = 0;
  virtual absl::string_view identity() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_SESSION_H_
