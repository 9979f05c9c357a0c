// The rules of one side of a session (session.h): which frame is sent next, what a frame of the peer
// means, how much may be under way, and when the session is over. The connection, the threads and the
// waiting are Session's.
//
//     Send ──► outgoing ──► NextFrame ═══ connection ═══ Take ──► inbox ──► Receive
//
// The session is over for good with its first end: the peer closes it or breaks the rules, BeginClose(),
// EndSilently(), or the lease runs out. The peer is told the reason of a BeginClose() or of a broken rule,
// behind what was sent before; in the other cases nothing is sent any more.
//
// The lease comes first: callers call CheckLease(), and look at status(), before Send(), Take() and
// Receive(). BeginClose() and NextFrame() check it themselves.
//
// Ownership: does not own `observer` and the clock of the options, which must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_INTERACTION_CONTROL_SESSION_PROTOCOL_H_
#define DING_WORKER_INTERACTION_CONTROL_SESSION_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/control/session_frame.h"
#include "ding_worker/interaction/control/session_options.h"

namespace ding {

class SessionProtocol {
 public:
  // Is told of what others may wait for, within the call that causes it. Must not call the protocol.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnRoom() = 0;     // the peer has taken messages, or takes more
    virtual void OnArrived() = 0;  // a message has arrived
    virtual void OnEnd() = 0;      // the session is over
  };

  // The longest reason of an end, in bytes. Longer ones are cut off.
  static constexpr size_t kMaxReasonBytes = 4096;

  // `peer` names the other side in errors.
  SessionProtocol(const SessionOptions& options, const std::string& peer, Observer* observer);

  // From now on the peer may send as much as the options allow, and is told so with the next frame.
  void Admit();

  // ---- sending

  // Queues `*message`, and takes room for it in the window and the budget. Returns false, and leaves
  // `*message` alone, if there is none.
  bool Send(std::string* message);
  // Why Send() of a message of `bytes` has found no room in `timeout`.
  absl::Status NoRoom(size_t bytes, absl::Duration timeout) const;
  // Moves the next frame to be sent to `*frame`; returns false if there is none.
  bool NextFrame(std::string* frame);
  // The connection has not taken `frame`: it is the next one again.
  void PutBack(std::string frame) { frame_ = std::move(frame); }
  // Whether nothing waits to be sent but signs of life.
  bool sent_all() const { return outgoing_.empty() && frame_.empty(); }
  // A sign of life is due if the peer does not know yet what was taken; with `silent`, in any case. It goes
  // out with the next frame, whether there is a message for it or not.
  void TellPeer(bool silent) { tell_now_ = tell_now_ || silent || told_taken_ < taken_; }

  // ---- receiving

  // Takes a frame of the peer. The session must not be over.
  void Take(std::string bytes);
  bool has_message() const { return !inbox_.empty(); }
  // Removes and returns the next message; has_message() must be true. `*tell` is true if the peer has to be
  // told at once what was taken, lest it waits for room in its window.
  std::string Receive(bool* tell);

  // ---- the end

  // Ends the session if the lease has run out.
  void CheckLease();
  absl::Duration lease() const { return lease_; }
  void set_lease(absl::Duration lease) { lease_ = lease; }

  // Why the session is over, or OK. An expired lease counts even if CheckLease() was not called.
  absl::Status CurrentStatus() const { return status_.ok() && Expired() ? LeaseRanOut() : status_; }
  // The same without a look at the lease: as of the last CheckLease().
  const absl::Status& status() const { return status_; }

  // Ends the session; the peer is told `reason`. Drops what has not been received.
  void BeginClose(absl::string_view reason);
  // Ends the session. Nothing is sent any more, not even what was queued before.
  void EndSilently(const absl::Status& status);
  // Whether nothing is sent any more.
  bool mute() const { return mute_; }
  // The time, by the machine's monotonic clock, until which the last frames may take to be sent.
  absl::Duration close_by() const { return close_by_; }
  // Returns to the budget what is under way. To be called when the connection is closed.
  void ReturnUnderWay();

 private:
  struct Outgoing {
    SessionFrame::Kind kind = SessionFrame::Kind::kMessage;
    std::string message;
  };

  absl::Duration LeaseTime() const { return absl::Nanoseconds(options_.clock->MonotonicNanos()); }
  bool Expired() const { return LeaseTime() - heard_ >= lease_; }
  absl::Status LeaseRanOut() const;

  // Ends the session. The peer is told `reason` behind what was sent before.
  void EndAndTell(const absl::Status& status, absl::string_view reason);
  // The peer broke the rules, and learns which one.
  void Violation(const absl::Status& what);
  void TakeProgress(const SessionFrame& frame);
  void TakeMessage(std::string message);
  void DropInbox();
  // Puts the next frame into frame_; returns false if there is none. Checks the lease.
  bool EncodeNext();
  // Takes room in the window and the budget; returns false if there is none.
  bool TakeRoom(int64_t cost);
  int64_t held() const { return under_way_bytes_ + inbox_bytes_; }
  bool TakeBudget(int64_t cost) {
    return options_.budget == nullptr || options_.budget->Take(held(), cost);
  }
  void ReturnBudget(int64_t cost) {
    if (options_.budget != nullptr) options_.budget->Return(cost);
  }

  const SessionOptions options_;
  const std::string peer_;
  Observer* const observer_;

  absl::Status status_;
  bool mute_ = false;
  absl::Duration close_by_ = absl::InfiniteDuration();

  absl::Duration lease_;
  absl::Duration heard_;  // when the last frame came, by the clock of the lease

  std::deque<Outgoing> outgoing_;
  std::string frame_;              // the next one, if the connection had no room
  uint64_t sent_ = 0;              // the last number
  std::deque<int64_t> under_way_;  // costs of what the peer has not taken
  int64_t under_way_bytes_ = 0;
  uint64_t peer_taken_ = 0;
  int64_t peer_window_bytes_ = kFirstWindowBytes;

  std::deque<std::string> inbox_;
  int64_t inbox_bytes_ = 0;
  int64_t own_window_bytes_;
  uint64_t received_ = 0;  // the last number of the peer's messages
  uint64_t taken_ = 0;     // messages that Receive() has returned
  uint64_t told_taken_ = 0;
  int64_t untold_bytes_ = 0;  // of what was taken since told_taken_
  bool tell_now_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_PROTOCOL_H_
