// A connection with a lease: messages arrive in order without a gap, or both sides learn that the
// session is over. A process of a parallel run knows only by its sessions that its peers live.
//
//     Send ──► window ──► frames {number, taken, window bytes, message} ──► Receive, in order
//                ▲                                                             │
//                └────────────────────────── taken ◄───────────────────────────┘
//
// The transport keeps the order and loses nothing. A broken connection, or a frame without the next
// number, ends the session. A session adds:
//
// - The lease. Every frame renews it, and a frame is sent at least every lease / 4. A side that has
//   heard nothing for the length of the lease ends the session for good, even if it was stopped
//   (SIGSTOP) for that long and finds frames waiting when it wakes. So while a session lives on one
//   side, no other process has replaced that side, except during a time that its own clock does not
//   count.
// - The window: messages and bytes under way, that is sent and not yet received by the peer's user.
//   Send() waits for room. The receiver announces how many bytes it accepts: few until Admit(). A
//   peer that exceeds its window ends the session. Frames are taken from the connection at once, so
//   a slow receiver keeps its lease.
// - The end with a reason, which the other side is told. The first end counts: the peer closes the
//   session or breaks the rules, Close(), the connection breaks, or the lease runs out.
//
// Ownership: owns its connection. Two threads, which all sessions of a process share
//            (session_pump.h), work for it.
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

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/control/session_frame.h"
#include "ding_worker/interaction/control/session_pump.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// The largest message of a session: a connection's largest message without the session's fields.
inline constexpr int64_t kMaxSessionMessageBytes = kMaxMessageBytes - 64;

// The shortest lease that a session may have.
inline constexpr absl::Duration kMinSessionLease = absl::Milliseconds(20);

// Bytes that a peer may have under way: until Admit(), and after it.
inline constexpr int64_t kFirstWindowBytes = int64_t{64} << 10;
inline constexpr int64_t kWindowBytes = int64_t{32} << 20;
inline constexpr int64_t kMaxWindowBytes = int64_t{1} << 40;
// The bytes that each message counts in addition to its own.
inline constexpr int64_t kMessageOverheadBytes = 64;

// Bounds the bytes that all sessions of a server hold together: messages in both directions that
// the receiving user has not taken yet.
//
//     |<── half: the sessions that ask first ──>|<─ half: max_sessions equal shares ─>|
//
// A session can always take bytes up to its share. So no session can block the others, and all
// sessions together never hold more than `bytes`.
// Thread-safe.
class SessionBudget {
 public:
  // `max_sessions`, the largest number of sessions at a time, is at least 1.
  SessionBudget(int64_t bytes, int max_sessions)
      : bytes_(bytes), share_(bytes / 2 / max_sessions) {}
  SessionBudget(const SessionBudget&) = delete;
  SessionBudget& operator=(const SessionBudget&) = delete;

  // Takes `bytes` for a session that already holds `held` bytes. Returns false, and takes nothing,
  // if that would exceed the budget.
  bool Take(int64_t held, int64_t bytes) {
    const int64_t taken = taken_.fetch_add(bytes) + bytes;
    if (taken <= bytes_ / 2 || held + bytes <= share_) return true;
    taken_.fetch_sub(bytes);
    return false;
  }
  // Gives back bytes that a session took.
  void Return(int64_t bytes) { taken_.fetch_sub(bytes); }

  int64_t bytes() const { return bytes_; }
  int64_t taken() const { return taken_.load(); }

 private:
  const int64_t bytes_;
  const int64_t share_;
  std::atomic<int64_t> taken_{0};
};

struct SessionOptions {
  // The session ends after this time without a sign of life; at least kMinSessionLease.
  absl::Duration lease = absl::Seconds(5);
  // Messages that may be under way, at least 1. The same on both sides.
  int window = 256;
  // The most bytes of messages that this side accepts until Admit(), and that may be under way in
  // either direction after it.
  int64_t first_window_bytes = kFirstWindowBytes;
  int64_t window_bytes = kWindowBytes;
  // The bytes that the sessions of a server share. May be null: no bound for all of them together.
  std::shared_ptr<SessionBudget> budget;
  // The clock that judges the lease. Timeouts go by the machine's clock.
  const Clock* clock = Clock::Real();
};

// OK, or kInvalidArgument with the options that are out of range.
absl::Status CheckSessionOptions(const SessionOptions& options);

class Session {
 public:
  // Starts a session with the peer of `connection`.
  //   kInvalidArgument    an option is out of range
  //   kResourceExhausted  the system refuses the threads of the pump
  static absl::StatusOr<std::unique_ptr<Session>> Start(std::unique_ptr<Connection> connection,
                                                        const SessionOptions& options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Closes the session as Close() does.
  virtual ~Session() { Close("its owner is gone"); }

  // Call it when the peer is accepted: from now on it may send larger messages, and more of them.
  void Admit();

  // Sends `message`, after waiting up to `timeout` for room in the window. With a timeout of zero,
  // while more of the peer's messages wait, the message may be delayed by a few milliseconds, to be
  // sent together with the next ones.
  //   kDeadlineExceeded  no room in the window; the message is not sent
  //   kInvalidArgument   larger than kMaxSessionMessageBytes; the session goes on
  //   otherwise          status(): the session is over
  absl::Status Send(std::string message, absl::Duration timeout);

  // Returns the next message, after waiting up to `timeout`. After the peer has closed the session,
  // or the connection broke, it still returns earlier messages; after the lease ran out, it does
  // not.
  //   kDeadlineExceeded  no message came in time
  //   otherwise          status(): the session is over
  absl::StatusOr<std::string> Receive(absl::Duration timeout);

  // Sets a callback for users that do not wait. After Receive() has returned kDeadlineExceeded, or
  // if it was never called, `ready` is called when Receive() would return at once. It is also
  // called once when the session is over. A thread of the pump calls it until Close() has returned.
  // It must not wait or throw. Set it once.
  void SetReadyCallback(std::function<void()> ready);
  // Whether the session is over, and all messages that had arrived were received.
  bool exhausted();

  // OK while the session lives, otherwise the reason why it is over, which names the peer:
  //   kCancelled    Close() was called here
  //   kAborted      the peer closed it; its reason
  //   kUnavailable  the connection broke, or the lease ran out
  //   kDataLoss     the peer sent bytes that are no frame, or another frame than the next one
  //   kFailedPrecondition  the peer's frames are of another version
  //   kResourceExhausted   the peer sent more than its window, or than the budget allows
  absl::Status status() const;

  // Ends the session; may be repeated. The peer is told the reason, up to 4 kB of it, behind what
  // was sent before. Waits at most a second and a half until the connection has taken it.
  void Close(absl::string_view reason);
  // Does the same without waiting. Close() must be called later; the destructor also calls it.
  void BeginClose(absl::string_view reason);

  // Whether the peer has ever sent something.
  bool has_heard() const;
  // The time after which the lease runs out if nothing more is heard; zero if the session is over.
  absl::Duration LeaseLeft() const;

  // Sets the lease, at least kMinSessionLease. A joining worker learns it from the other side.
  void set_lease(absl::Duration lease);

  // As Connection::peer() and Connection::identity() of its connection.
  const std::string& peer() const { return connection_->peer(); }
  absl::string_view identity() const { return connection_->identity(); }

 protected:
  // As Start(); the options must be valid.
  Session(std::shared_ptr<SessionPump> pump, std::unique_ptr<Connection> connection,
          const SessionOptions& options);

 private:
  // The pump's job: receives, sends, and checks the lease. Returns when it must run again.
  absl::Duration Work();

  // ---- Sending. Any thread with something to send calls Flush().

  // Takes room in the window and in the budget; false if there is none.
  bool TakeRoom(int64_t cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends waiting frames until the connection takes no more. Releases the mutex meanwhile, because
  // a connection may call the peer's session in this process.
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the next frame to *frame; false if there is none.
  bool NextFrame(std::string* frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- Receiving. Only the pump takes frames from the connection.

  // Takes a bounded number of frames that have arrived. Returns true if there may be more.
  bool Drain() ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeFrame(std::string bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes room after the peer has taken messages.
  void TakeProgress(const SessionFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeMessage(std::string message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropInbox() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- The end

  absl::Duration LeaseTime() const { return absl::Nanoseconds(options_.clock->MonotonicNanos()); }
  // Why the session is over, or OK. Notices an expired lease, but does not end the session.
  absl::Status CurrentStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the session if the lease has expired: another process may have our place and the same
  // messages by then. Call it before reading status_, sending or receiving.
  void CheckLease() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the session, unless it is over. The peer is told `reason` after all earlier messages;
  // without a reason, nothing more is sent.
  void End(const absl::Status& status, std::optional<absl::string_view> reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the session, because the peer broke the rules.
  void EndForViolation(const absl::Status& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndByUser(absl::string_view reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the session is over, and its close frame was sent or cannot be sent.
  bool MayCloseConnection() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool TakeBudget(int64_t cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnBudget(int64_t cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionOptions options_;
  const std::unique_ptr<Connection> connection_;
  const std::shared_ptr<SessionPump> pump_;
  const std::shared_ptr<SessionPump::Job> job_;

  mutable Mutex mutex_;
  CondVar changed_;  // Send(), Receive() and Close() wait for it

  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // as of the last CheckLease()
  bool mute_ ABSL_GUARDED_BY(mutex_) = false;    // nothing is sent any more
  // Once the session is over: until when the close frame may wait to be sent.
  absl::Duration close_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  bool connection_closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool close_called_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;

  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  bool has_heard_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration heard_
      ABSL_GUARDED_BY(mutex_);  // when the last frame came, by the clock of the lease
  absl::Duration period_
      ABSL_GUARDED_BY(mutex_);  // how often Work() looks whether a sign of life is due
  absl::Duration next_look_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  absl::Duration last_sent_ ABSL_GUARDED_BY(mutex_);

  std::deque<SessionFrame> outgoing_ ABSL_GUARDED_BY(mutex_);  // without their numbers
  std::string frame_
      ABSL_GUARDED_BY(mutex_);  // encoded; not empty if the connection had no room for it
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;           // a thread is in Flush()
  bool send_more_ ABSL_GUARDED_BY(mutex_) = false;         // another thread called it
  uint64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;              // the last number
  std::deque<int64_t> under_way_ ABSL_GUARDED_BY(mutex_);  // costs of what the peer has not taken
  int64_t under_way_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t peer_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t peer_window_bytes_ ABSL_GUARDED_BY(mutex_) = kFirstWindowBytes;

  std::deque<std::string> inbox_ ABSL_GUARDED_BY(mutex_);
  int64_t inbox_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t own_window_bytes_ ABSL_GUARDED_BY(mutex_);
  uint64_t received_ ABSL_GUARDED_BY(mutex_) = 0;  // the last number of the peer's messages
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;     // messages that Receive() has returned
  uint64_t told_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t untold_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of what was taken since told_taken_
  bool tell_now_ ABSL_GUARDED_BY(mutex_) = false;  // a sign of life is due, if no message is sent

  std::shared_ptr<const std::function<void()>> ready_ ABSL_GUARDED_BY(mutex_);
  bool receiver_waits_ ABSL_GUARDED_BY(mutex_) = true;  // ready_ is called when there is a message
  bool told_end_ ABSL_GUARDED_BY(mutex_) = false;       // ready_ was called since the end
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_H_
