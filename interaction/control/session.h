// A connection with a lease: messages arrive in order and none is missing, or both sides learn that
// the session is over. The one mechanism by which processes of a parallel run know that the others
// live.
//
//     Send ──► window ──► frames {number, taken, window bytes, message} ──► Receive, in order
//                ▲                                                             │
//                └────────────────────────── taken ◄───────────────────────────┘
//
// Order and completeness are the transport's; a connection that breaks ends its session, and a frame
// with another number than the next one is a violation that ends it, too. What a session adds:
//
// - The lease. Every frame renews it, and one goes out at least every lease / 4. A side that has
//   heard nothing for the length of the lease ends the session for good: also one that was stopped
//   (SIGSTOP) for that long and finds frames waiting when it wakes. So whoever holds a session that
//   lives has not been replaced, but for the time that its own clock cannot see.
// - The window: messages and bytes under way, sent and not yet received by the peer's user. Whoever
//   sends more waits. The receiver says how many bytes it takes: few until Admit(). A peer that
//   exceeds its window ends the session. What has arrived is taken from the connection at once, so a
//   receiver that is slow keeps its lease.
// - The end with a reason, which the other side is told.
//
// Ownership: owns its connection. The two threads of all sessions of a process (session_pump.h) work
//            for it.
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

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/control/session_budget.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// The largest message of a session: what a connection takes, less the session's own fields.
inline constexpr int64_t kMaxSessionMessageBytes = kMaxMessageBytes - 64;

// Of every session.
inline constexpr absl::Duration kMinSessionLease = absl::Milliseconds(20);

// Bytes that a peer may have under way: until Admit(), and after it.
inline constexpr int64_t kFirstWindowBytes = int64_t{64} << 10;
inline constexpr int64_t kWindowBytes = int64_t{32} << 20;
// What each message counts for besides its bytes.
inline constexpr int64_t kMessageOverheadBytes = 64;

struct SessionOptions {
  // Without a sign of life for that long, the session is over; at least kMinSessionLease.
  absl::Duration lease = absl::Seconds(5);
  // Messages that may be under way, at least 1. The same on both sides.
  int window = 256;
  // Bytes of them that this side takes until Admit(), and the most that are under way in either
  // direction after it.
  int64_t first_window_bytes = kFirstWindowBytes;
  int64_t window_bytes = kWindowBytes;
  // What the sessions of a server share. May be null.
  std::shared_ptr<SessionBudget> budget;
  // Called once, by a thread of the pump, when Receive() does not wait any more: the first message is
  // there, or the session is over. Must not wait, nor call the session. May be empty.
  std::function<void()> on_first_message;
  // Judges the lease. Timeouts go by the machine's clock.
  const Clock* clock = Clock::Real();
};

class Session {
 public:
  //   kResourceExhausted  the system refuses the threads of the pump
  static absl::StatusOr<std::unique_ptr<Session>> Start(std::unique_ptr<Connection> connection,
                                                        const SessionOptions& options);
  virtual ~Session() = default;  // as Close()

  // The peer is whom we want to talk to: it may send larger messages, and more of them.
  virtual void Admit() = 0;

  // With a timeout of zero it leaves the work on the connection to the pump, and so returns within
  // microseconds.
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
  //   kDataLoss     the peer sent what is no frame, or not the one that was due
  //   kFailedPrecondition  the peer's frames are of another version
  //   kResourceExhausted   the peer sent more than its window, or than the budget allows
  virtual absl::Status status() const = 0;

  // Ends the session; may be repeated. The peer is told the reason, up to 4 kB of it, behind what was
  // sent before; this waits for a second and a half at most for the connection to take it.
  virtual void Close(absl::string_view reason) = 0;
  // The same without waiting. Close() is to follow.
  virtual void BeginClose(absl::string_view reason) = 0;

  // From now on the lease is that long; at least kMinSessionLease. Who joins is told by the other
  // side.
  virtual void set_lease(absl::Duration lease) = 0;

  // Of the connection.
  virtual const std::string& peer() const = 0;
  virtual absl::string_view identity() const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_H_
