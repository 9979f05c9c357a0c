#include "ding_worker/interaction/control/session.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/session_frame.h"
#include "ding_worker/interaction/control/session_protocol.h"
#include "ding_worker/interaction/control/session_pump.h"

namespace ding {
namespace {

// The longest time between two looks of the pump at the lease and at what the peer has to be told.
constexpr absl::Duration kMaxPeriod = absl::Milliseconds(250);
// Frames that a thread reads, or sends for others, before the next session has its turn.
constexpr int kBurst = 64;

// Waiting goes by the machine's clock; SessionOptions::clock judges the lease.
absl::Duration RealTime() { return absl::Nanoseconds(Clock::Real()->MonotonicNanos()); }

absl::Duration PeriodOf(absl::Duration lease) { return std::min(lease / 8, kMaxPeriod); }

// Ties the rules of a session to its connection, to the pump, and to the threads that wait. Frames are read
// by the pump alone, and sent by whoever has something to send:
//
//     Send() ──► protocol_ ──Flush──► connection_ ──Drain──► protocol_ ──► Receive()
//
// A connection is never called under the mutex: it may call the peer's session, in this process.
class SessionImpl : public Session, private SessionPump::Job, private SessionProtocol::Observer {
 public:
  SessionImpl(std::shared_ptr<SessionPump> pump, std::unique_ptr<Connection> connection,
              const SessionOptions& options)
      : pump_(std::move(pump)),
        waker_(pump_->Add(this)),
        connection_(std::move(connection)),
        protocol_(options, connection_->peer(), this),
        period_(PeriodOf(options.lease)) {
    connection_->SetMaxReceivedBytes(
        std::min(kMaxMessageBytes,
                 std::max<int64_t>(options.first_window_bytes, SessionProtocol::kMaxReasonBytes) +
                     static_cast<int64_t>(kSessionFrameBytes)));
    connection_->SetReadyCallback([waker = waker_] { waker->Wake(); });
    waker_->Wake();
  }
  ~SessionImpl() override { SessionImpl::Close("its owner is gone"); }

  void Admit() override;
  absl::Status Send(std::string message, absl::Duration timeout) override;
  absl::StatusOr<std::string> Receive(absl::Duration timeout) override;
  void SetReadyCallback(std::function<void()> ready) override;
  bool exhausted() override;
  absl::Status status() const override;
  void Close(absl::string_view reason) override;
  void BeginClose(absl::string_view reason) override;
  void set_lease(absl::Duration lease) override;
  const std::string& peer() const override { return connection_->peer(); }
  absl::string_view identity() const override { return connection_->identity(); }

 private:
  // The protocol calls these under the mutex.
  void OnRoom() override { room_.SignalAll(); }
  void OnArrived() override { arrived_.Signal(); }
  void OnEnd() override;

  // Called by the pump.
  absl::Duration Run() override;
  // Takes what has arrived, at most kBurst frames; returns true if there may be more.
  bool Drain();
  // Whether the connection may be closed: the session is over, and its last words are sent, or
  // cannot be.
  bool MayCloseConnection() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Sends what waits, at most `limit` frames, as far as the connection takes it; the pump sends what is
  // left. Releases the mutex meanwhile.
  void Flush(int limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<SessionPump> pump_;
  const std::shared_ptr<SessionPump::Waker> waker_;
  const std::unique_ptr<Connection> connection_;

  mutable Mutex mutex_;
  CondVar room_;     // Send() waits for it
  CondVar arrived_;  // Receive() waits for it
  CondVar settled_;  // Close() waits for it

  SessionProtocol protocol_ ABSL_GUARDED_BY(mutex_);
  bool connection_closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool close_called_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const std::function<void()>> ready_ ABSL_GUARDED_BY(mutex_);
  bool receiver_waits_ ABSL_GUARDED_BY(mutex_) = true;  // ready_ is called when there is a message
  bool told_end_ ABSL_GUARDED_BY(mutex_) = false;       // ready_ was called since the end

  // How often the pump looks after the session, and when it does so next.
  absl::Duration period_ ABSL_GUARDED_BY(mutex_);
  absl::Duration next_look_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();

  bool sending_ ABSL_GUARDED_BY(mutex_) = false;    // somebody is in Flush()
  bool send_more_ ABSL_GUARDED_BY(mutex_) = false;  // somebody else has called it meanwhile
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;     // the connection sends no more
  absl::Duration last_sent_ ABSL_GUARDED_BY(mutex_) = RealTime();
};

void SessionImpl::Admit() {
  connection_->SetMaxReceivedBytes(kMaxMessageBytes);
  MutexLock lock(&mutex_);
  protocol_.Admit();
  Flush(kBurst);
}

absl::Status SessionImpl::Send(std::string message, absl::Duration timeout) {
  if (static_cast<int64_t>(message.size()) > kMaxSessionMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(), " bytes to ",
                                                   peer(), ", expected at most ",
                                                   kMaxSessionMessageBytes));
  }
  absl::Duration deadline = absl::InfiniteDuration();  // not known yet
  MutexLock lock(&mutex_);
  while (true) {
    protocol_.CheckLease();
    if (!protocol_.status().ok()) return protocol_.status();
    if (protocol_.Send(&message)) break;
    if (deadline == absl::InfiniteDuration()) deadline = RealTime() + timeout;
    const absl::Duration left = deadline - RealTime();
    if (left <= absl::ZeroDuration()) return protocol_.NoRoom(message.size(), timeout);
    // No session is told when the budget has room again, so we look now and then.
    room_.WaitFor(&mutex_, std::min(left, kMaxPeriod));
  }
  if (timeout == absl::ZeroDuration()) {
    waker_->Wake();
  } else {
    Flush(kBurst);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SessionImpl::Receive(absl::Duration timeout) {
  const absl::Duration deadline = RealTime() + timeout;
  MutexLock lock(&mutex_);
  while (true) {
    protocol_.CheckLease();
    if (protocol_.has_message()) break;
    if (!protocol_.status().ok()) return protocol_.status();
    const absl::Duration left = deadline - RealTime();
    if (left <= absl::ZeroDuration()) {
      receiver_waits_ = true;
      return absl::DeadlineExceededError(
          absl::StrCat("no message from ", peer(), " in ", absl::FormatDuration(timeout)));
    }
    arrived_.WaitFor(&mutex_, left);
  }
  bool tell = false;
  std::string message = protocol_.Receive(&tell);
  if (tell) Flush(kBurst);
  return message;
}

void SessionImpl::SetReadyCallback(std::function<void()> ready) {
  MutexLock lock(&mutex_);
  ready_ = std::make_shared<const std::function<void()>>(std::move(ready));
  waker_->Wake();
}

bool SessionImpl::exhausted() {
  MutexLock lock(&mutex_);
  protocol_.CheckLease();
  return !protocol_.status().ok() && !protocol_.has_message();
}

absl::Status SessionImpl::status() const {
  MutexLock lock(&mutex_);
  return protocol_.CurrentStatus();
}

void SessionImpl::BeginClose(absl::string_view reason) {
  MutexLock lock(&mutex_);
  protocol_.BeginClose(reason);
}

void SessionImpl::Close(absl::string_view reason) {
  {
    MutexLock lock(&mutex_);
    if (close_called_) {
      while (!closed_) settled_.WaitFor(&mutex_, absl::InfiniteDuration());
      return;
    }
    close_called_ = true;
    protocol_.BeginClose(reason);
    while (!connection_closing_ && !MayCloseConnection()) {
      settled_.WaitFor(&mutex_, protocol_.close_by() - RealTime());
    }
    connection_closing_ = true;
  }
  pump_->Remove(waker_.get());
  connection_->Close();
  MutexLock lock(&mutex_);
  protocol_.ReturnUnderWay();
  closed_ = true;
  settled_.SignalAll();
}

void SessionImpl::OnEnd() {
  room_.SignalAll();
  arrived_.SignalAll();
  settled_.SignalAll();
  waker_->Wake();
}

bool SessionImpl::MayCloseConnection() const {
  if (protocol_.status().ok()) return false;
  const bool told = !sending_ && protocol_.sent_all();
  return protocol_.mute() || broken_ || told || RealTime() >= protocol_.close_by();
}

absl::Duration SessionImpl::Run() {
  const bool more = Drain();
  bool close = false;
  std::shared_ptr<const std::function<void()>> ready;
  absl::Duration again = absl::InfiniteDuration();
  {
    MutexLock lock(&mutex_);
    protocol_.CheckLease();
    const absl::Duration now = RealTime();
    if (now >= next_look_) {
      next_look_ = now + period_;
      protocol_.TellPeer(/*silent=*/next_look_ > last_sent_ + protocol_.lease() / 4);
    }
    Flush(kBurst);
    if (!connection_closing_) {
      close = connection_closing_ = MayCloseConnection();
      again = more                      ? absl::ZeroDuration()
              : protocol_.status().ok() ? next_look_ - now
              : !close                  ? protocol_.close_by() - now
                                        : absl::InfiniteDuration();
    }
    const bool over = !protocol_.status().ok();
    if ((receiver_waits_ && protocol_.has_message()) || (over && !told_end_)) {
      ready = ready_;
      if (ready != nullptr) {
        receiver_waits_ = false;
        told_end_ = over;
      }
    }
    settled_.SignalAll();
  }
  if (close) connection_->BeginClose();
  if (ready != nullptr) CallUserWhoMustNotThrow("the ready callback of a session", *ready);
  return std::max(again, absl::ZeroDuration());
}

bool SessionImpl::Drain() {
  std::string bytes;
  for (int i = 0; i < kBurst; ++i) {
    const absl::StatusOr<bool> received = connection_->TryReceive(&bytes);
    MutexLock lock(&mutex_);
    protocol_.CheckLease();
    if (!protocol_.status().ok()) return false;
    if (!received.ok()) {
      protocol_.EndSilently(absl::UnavailableError(received.status().message()));
      return false;
    }
    if (!*received) return false;
    protocol_.Take(std::move(bytes));
  }
  return true;
}

void SessionImpl::Flush(int limit) {
  if (sending_) {
    send_more_ = true;
    return;
  }
  sending_ = true;
  bool came = false;
  bool any = false;
  std::string frame;
  do {
    send_more_ = false;
    while (!broken_ && limit > 0 && protocol_.NextFrame(&frame)) {
      --limit;
      mutex_.Unlock();
      const absl::StatusOr<bool> sent = connection_->TrySend(&frame);
      mutex_.Lock();
      if (!sent.ok()) {
        broken_ = true;  // Drain() says why, after what has arrived.
      } else if (!*sent) {
        protocol_.PutBack(std::move(frame));
        break;
      }
      any = true;
    }
    came = came || send_more_;
  } while (send_more_ && limit > 0);
  sending_ = false;
  if (any) last_sent_ = RealTime();
  // The pump may have found us here, and waits for us to be done before it closes the connection.
  if (limit <= 0 || came) waker_->Wake();
  settled_.SignalAll();
}

void SessionImpl::set_lease(absl::Duration lease) {
  DING_CHECK(lease >= kMinSessionLease) << "the lease is " << absl::FormatDuration(lease);
  MutexLock lock(&mutex_);
  protocol_.set_lease(lease);
  period_ = PeriodOf(lease);
  next_look_ = absl::ZeroDuration();
  waker_->Wake();
}

}  // namespace

absl::Status CheckSessionOptions(const SessionOptions& options) {
  if (options.lease >= kMinSessionLease && options.window >= 1 && options.first_window_bytes >= 0 &&
      options.first_window_bytes <= kMaxWindowBytes && options.window_bytes >= kFirstWindowBytes &&
      options.window_bytes <= kMaxWindowBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a session with a lease of ", absl::FormatDuration(options.lease), ", a window of ",
      options.window, " messages, and windows of ", options.first_window_bytes, " and ",
      options.window_bytes, " bytes, expected at least ", absl::FormatDuration(kMinSessionLease),
      ", at least 1 message, 0 to ", kMaxWindowBytes, " bytes and ", kFirstWindowBytes, " to ",
      kMaxWindowBytes, " bytes"));
}

absl::StatusOr<std::unique_ptr<Session>> Session::Start(std::unique_ptr<Connection> connection,
                                                        const SessionOptions& options) {
  DING_RETURN_IF_ERROR(CheckSessionOptions(options));
  DING_ASSIGN_OR_RETURN(std::shared_ptr<SessionPump> pump, SessionPump::Get());
  return std::make_unique<SessionImpl>(std::move(pump), std::move(connection), options);
}

}  // namespace ding
