#include "ding_worker/interaction/control/session.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/session_frame.h"
#include "ding_worker/interaction/control/session_pump.h"

namespace ding {
namespace {

using Kind = SessionFrame::Kind;

// How long the connection may need to take the reason of a close, and what was sent before.
constexpr absl::Duration kPatience = absl::Milliseconds(500);
// How often the pump looks after the lease and tells what was taken, at least.
constexpr absl::Duration kMaxPeriod = absl::Milliseconds(250);
// Frames that a thread reads, or sends for others, before the next session has its turn.
constexpr int kBurst = 64;
// The longest reason.
constexpr size_t kMaxReasonBytes = 4096;

static_assert(kMaxSessionMessageBytes + static_cast<int64_t>(kSessionFrameBytes) <=
              kMaxMessageBytes);
static_assert(kMaxSessionMessageBytes + kMessageOverheadBytes <= kWindowBytes);

// Waiting goes by the machine's clock; SessionOptions::clock judges the lease.
absl::Duration RealTime() { return absl::Nanoseconds(Clock::Real()->MonotonicNanos()); }

absl::Duration PeriodOf(absl::Duration lease) { return std::min(lease / 8, kMaxPeriod); }

int64_t CostOf(const std::string& message) {
  return static_cast<int64_t>(message.size()) + kMessageOverheadBytes;
}

// Frames are read by the pump alone, and sent by whoever has something to send:
//
//     Send() ──► outgoing_ ──Flush──► connection_ ──Drain──► inbox_ ──► Receive()
//
// A connection is never called under the mutex: it may call the peer's session, in this process.
class SessionImpl : public Session, private SessionPump::Job {
 public:
  SessionImpl(std::shared_ptr<SessionPump> pump, std::unique_ptr<Connection> connection,
              const SessionOptions& options)
      : options_(options),
        pump_(std::move(pump)),
        waker_(pump_->Add(this)),
        connection_(std::move(connection)),
        lease_(options.lease),
        period_(PeriodOf(options.lease)),
        heard_(LeaseTime()),
        own_window_bytes_(options.first_window_bytes) {
    connection_->SetMaxReceivedBytes(
        std::min(kMaxMessageBytes, std::max<int64_t>(own_window_bytes_, kMaxReasonBytes) +
                                       static_cast<int64_t>(kSessionFrameBytes)));
    connection_->SetReadyCallback([waker = waker_] { waker->Wake(); });
    waker_->Wake();
  }
  ~SessionImpl() override { SessionImpl::Close("its owner is gone"); }

  void Admit() override;
  absl::Status Send(std::string message, absl::Duration timeout) override;
  absl::StatusOr<std::string> Receive(absl::Duration timeout) override;
  absl::Status status() const override;
  void Close(absl::string_view reason) override;
  void BeginClose(absl::string_view reason) override;
  void set_lease(absl::Duration lease) override;
  const std::string& peer() const override { return connection_->peer(); }
  absl::string_view identity() const override { return connection_->identity(); }

 private:
  struct Outgoing {
    Kind kind = Kind::kMessage;
    std::string message;
  };

  absl::Duration LeaseTime() const { return absl::Nanoseconds(options_.clock->MonotonicNanos()); }
  bool Expired() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return LeaseTime() - heard_ >= lease_;
  }
  absl::Status LeaseRanOut() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return absl::UnavailableError(absl::StrCat("nothing was heard of ", peer(), " for ",
                                               absl::FormatDuration(lease_),
                                               ", the length of the lease"));
  }
  // Ends the session if the lease has run out. Comes before whatever the session does.
  void CheckLease() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The ends of a session, for good; the first one counts.
  // The peer is told `reason` behind what was sent before.
  void EndAndTell(const absl::Status& status, absl::string_view reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nothing is sent any more.
  void EndSilently(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginCloseLocked(absl::string_view reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The pump's part.
  absl::Duration Run() override;
  // Takes what has arrived; true: there is more.
  bool Drain();
  void Take(std::string bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeProgress(const SessionFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeMessage(std::string message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The peer broke the rules, and learns which one.
  void Violation(const absl::Status& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropInbox() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the connection may be closed: the session is over, and its last words are sent, or
  // cannot be.
  bool MayCloseConnection() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Sends what waits, at most `limit` frames, as far as the connection takes it; what is left is the
  // pump's. Releases the mutex meanwhile.
  void Flush(int limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts the next frame into frame_; false: there is none.
  bool EncodeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes room in the window and the budget; false: there is none.
  bool TakeRoom(int64_t cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t held() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return under_way_bytes_ + inbox_bytes_;
  }
  bool TakeBudget(int64_t cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return options_.budget == nullptr || options_.budget->Take(held(), cost);
  }
  void ReturnBudget(int64_t cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (options_.budget != nullptr) options_.budget->Return(cost);
  }

  const SessionOptions options_;
  const std::shared_ptr<SessionPump> pump_;
  const std::shared_ptr<SessionPump::Waker> waker_;
  const std::unique_ptr<Connection> connection_;

  mutable Mutex mutex_;
  CondVar room_;     // for Send()
  CondVar arrived_;  // for Receive()
  CondVar settled_;  // for Close()

  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool mute_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is sent any more
  // When the last words have had their time.
  absl::Duration close_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  bool connection_closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool close_called_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;  // on_first_message was called

  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  absl::Duration period_ ABSL_GUARDED_BY(mutex_);
  absl::Duration heard_ ABSL_GUARDED_BY(mutex_);  // by the clock of the lease
  absl::Duration next_look_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();

  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mutex_);
  std::string frame_ ABSL_GUARDED_BY(mutex_);       // the next one, if the connection had no room
  uint64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;       // the last number
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;    // somebody is in Flush()
  bool send_more_ ABSL_GUARDED_BY(mutex_) = false;  // somebody else came meanwhile
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;     // the connection sends no more
  absl::Duration last_sent_ ABSL_GUARDED_BY(mutex_) = RealTime();
  std::deque<int64_t> under_way_ ABSL_GUARDED_BY(mutex_);  // costs of what the peer has not taken
  int64_t under_way_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t peer_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t peer_window_bytes_ ABSL_GUARDED_BY(mutex_) = kFirstWindowBytes;

  std::deque<std::string> inbox_ ABSL_GUARDED_BY(mutex_);
  int64_t inbox_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t own_window_bytes_ ABSL_GUARDED_BY(mutex_);
  uint64_t received_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t told_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t untold_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of what was taken since told_taken_
  bool tell_now_ ABSL_GUARDED_BY(mutex_) = false;
};

void SessionImpl::Admit() {
  connection_->SetMaxReceivedBytes(kMaxMessageBytes);
  MutexLock lock(&mutex_);
  own_window_bytes_ = std::max(own_window_bytes_, options_.window_bytes);
  tell_now_ = true;
  Flush(kBurst);
}

bool SessionImpl::TakeRoom(int64_t cost) {
  if (under_way_.size() >= static_cast<size_t>(options_.window)) return false;
  const int64_t window_bytes = std::min(peer_window_bytes_, options_.window_bytes);
  if (under_way_bytes_ + cost > window_bytes || !TakeBudget(cost)) return false;
  under_way_.push_back(cost);
  under_way_bytes_ += cost;
  return true;
}

absl::Status SessionImpl::Send(std::string message, absl::Duration timeout) {
  if (static_cast<int64_t>(message.size()) > kMaxSessionMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(), " bytes to ",
                                                   peer(), ", expected at most ",
                                                   kMaxSessionMessageBytes));
  }
  const int64_t cost = CostOf(message);
  absl::Duration deadline = absl::InfiniteDuration();  // not known yet
  MutexLock lock(&mutex_);
  while (true) {
    CheckLease();
    if (!status_.ok()) return status_;
    if (TakeRoom(cost)) break;
    if (deadline == absl::InfiniteDuration()) deadline = RealTime() + timeout;
    const absl::Duration left = deadline - RealTime();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat(under_way_.size(), " messages of ", under_way_bytes_,
                       " bytes are under way to ", peer(), ", which takes ", options_.window,
                       " and ", peer_window_bytes_, ": no room for another one of ", message.size(),
                       " bytes in ", absl::FormatDuration(timeout)));
    }
    // Nobody says when the budget has room again.
    room_.WaitFor(&mutex_, std::min(left, kMaxPeriod));
  }
  outgoing_.push_back({Kind::kMessage, std::move(message)});
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
    CheckLease();
    if (!inbox_.empty()) break;
    if (!status_.ok()) return status_;
    const absl::Duration left = deadline - RealTime();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no message from ", peer(), " in ", absl::FormatDuration(timeout)));
    }
    arrived_.WaitFor(&mutex_, left);
  }
  std::string message = std::move(inbox_.front());
  inbox_.pop_front();
  const int64_t cost = CostOf(message);
  inbox_bytes_ -= cost;
  ReturnBudget(cost);
  ++taken_;
  untold_bytes_ += cost;
  // The peer is told at once if that is a good part of its window, else with the next message or at
  // the end of the period.
  const uint64_t many = std::max<uint64_t>(1, static_cast<uint64_t>(options_.window) / 4);
  if (taken_ - told_taken_ >= many || untold_bytes_ >= own_window_bytes_ / 4) {
    tell_now_ = true;
    Flush(kBurst);
  }
  return message;
}

absl::Status SessionImpl::status() const {
  MutexLock lock(&mutex_);
  return status_.ok() && Expired() ? LeaseRanOut() : status_;
}

void SessionImpl::BeginClose(absl::string_view reason) {
  MutexLock lock(&mutex_);
  BeginCloseLocked(reason);
}

void SessionImpl::BeginCloseLocked(absl::string_view reason) {
  CheckLease();
  EndAndTell(
      absl::CancelledError(absl::StrCat("the session with ", peer(), " was closed here: ", reason)),
      reason);
  DropInbox();
}

void SessionImpl::Close(absl::string_view reason) {
  {
    MutexLock lock(&mutex_);
    if (close_called_) {
      while (!closed_) settled_.WaitFor(&mutex_, absl::InfiniteDuration());
      return;
    }
    close_called_ = true;
    BeginCloseLocked(reason);
    while (!connection_closing_ && !MayCloseConnection()) {
      settled_.WaitFor(&mutex_, close_by_ - RealTime());
    }
    connection_closing_ = true;
  }
  pump_->Remove(waker_.get());
  connection_->Close();
  MutexLock lock(&mutex_);
  for (const int64_t cost : under_way_) ReturnBudget(cost);
  under_way_.clear();
  under_way_bytes_ = 0;
  closed_ = true;
  settled_.SignalAll();
}

void SessionImpl::CheckLease() {
  if (!status_.ok() || !Expired()) return;
  // Whoever replaced us may have been given the same.
  DropInbox();
  EndSilently(LeaseRanOut());
}

void SessionImpl::EndAndTell(const absl::Status& status, absl::string_view reason) {
  if (!status_.ok()) return;
  status_ = status;
  outgoing_.push_back({Kind::kClose, std::string(reason.substr(0, kMaxReasonBytes))});
  close_by_ = RealTime() + kPatience;
  WakeAll();
}

void SessionImpl::EndSilently(const absl::Status& status) {
  if (!status_.ok()) return;
  status_ = status;
  mute_ = true;
  outgoing_.clear();
  close_by_ = RealTime();
  WakeAll();
}

void SessionImpl::WakeAll() {
  room_.SignalAll();
  arrived_.SignalAll();
  settled_.SignalAll();
  waker_->Wake();
}

void SessionImpl::DropInbox() {
  inbox_.clear();
  ReturnBudget(inbox_bytes_);
  inbox_bytes_ = 0;
}

bool SessionImpl::MayCloseConnection() const {
  if (status_.ok()) return false;
  const bool told = !sending_ && outgoing_.empty() && frame_.empty();
  return mute_ || broken_ || told || RealTime() >= close_by_;
}

absl::Duration SessionImpl::Run() {
  const bool more = Drain();
  bool close = false, notify = false;
  absl::Duration again = absl::InfiniteDuration();
  {
    MutexLock lock(&mutex_);
    CheckLease();
    const absl::Duration now = RealTime();
    if (now >= next_look_) {
      next_look_ = now + period_;
      const bool silent = next_look_ > last_sent_ + lease_ / 4;
      tell_now_ = tell_now_ || silent || told_taken_ < taken_;
    }
    Flush(kBurst);
    if (!connection_closing_) {
      close = connection_closing_ = MayCloseConnection();
      again = more           ? absl::ZeroDuration()
              : status_.ok() ? next_look_ - now
              : !close       ? close_by_ - now
                             : absl::InfiniteDuration();
    }
    notify = !notified_ && (received_ > 0 || !status_.ok());
    notified_ = notified_ || notify;
    settled_.SignalAll();
  }
  if (close) connection_->BeginClose();
  if (notify && options_.on_first_message != nullptr) options_.on_first_message();
  return std::max(again, absl::ZeroDuration());
}

bool SessionImpl::Drain() {
  std::string bytes;
  for (int i = 0; i < kBurst; ++i) {
    const absl::StatusOr<bool> received = connection_->TryReceive(&bytes);
    MutexLock lock(&mutex_);
    CheckLease();
    if (!status_.ok()) return false;
    if (!received.ok()) {
      EndSilently(absl::UnavailableError(received.status().message()));
      return false;
    }
    if (!*received) return false;
    Take(std::move(bytes));
  }
  return true;
}

void SessionImpl::Take(std::string bytes) {
  absl::StatusOr<SessionFrame> frame = DecodeSessionFrame(std::move(bytes));
  if (absl::IsFailedPrecondition(frame.status())) {
    const std::string what = absl::StrCat(peer(), " sent ", frame.status().message());
    EndSilently(absl::FailedPreconditionError(what));
    frame_ = EncodeCloseForVersion1(what);
    mute_ = false;
    close_by_ = RealTime() + kPatience;
    return;
  }
  if (!frame.ok()) return Violation(frame.status());
  if (frame->taken > sent_) {
    return Violation(absl::DataLossError(
        absl::StrCat("that it has taken ", frame->taken, " messages of ", sent_, " sent ones")));
  }
  heard_ = LeaseTime();
  TakeProgress(*frame);
  if (frame->kind == Kind::kSignOfLife) return;
  if (frame->sequence != received_ + 1) {
    return Violation(absl::DataLossError(
        absl::StrCat("message ", frame->sequence, ", expected message ", received_ + 1)));
  }
  ++received_;
  if (frame->kind == Kind::kMessage) return TakeMessage(std::move(frame->message));
  EndSilently(absl::AbortedError(absl::StrCat(
      peer(),
      " closed the session: ", absl::string_view(frame->message).substr(0, kMaxReasonBytes))));
}

void SessionImpl::TakeProgress(const SessionFrame& frame) {
  const int64_t window_bytes = static_cast<int64_t>(
      std::min<uint64_t>(frame.window_bytes, static_cast<uint64_t>(options_.window_bytes)));
  if (frame.taken <= peer_taken_ && window_bytes <= peer_window_bytes_) return;
  peer_window_bytes_ = std::max(peer_window_bytes_, window_bytes);
  for (; peer_taken_ < frame.taken; ++peer_taken_) {
    under_way_bytes_ -= under_way_.front();
    ReturnBudget(under_way_.front());
    under_way_.pop_front();
  }
  room_.SignalAll();
}

void SessionImpl::TakeMessage(std::string message) {
  const int64_t cost = CostOf(message);
  if (inbox_.size() >= static_cast<size_t>(options_.window) ||
      inbox_bytes_ + cost > own_window_bytes_) {
    return Violation(absl::ResourceExhaustedError(
        absl::StrCat("a message of ", message.size(), " bytes beyond its window: ", inbox_.size(),
                     " messages of ", inbox_bytes_, " bytes wait, expected at most ",
                     options_.window, " of ", own_window_bytes_)));
  }
  if (!TakeBudget(cost)) {
    return Violation(absl::ResourceExhaustedError(absl::StrCat(
        "a message of ", message.size(), " bytes, for which there is no room: all sessions hold ",
        options_.budget->taken(), " bytes of ", options_.budget->bytes(), ", this one ", held())));
  }
  inbox_bytes_ += cost;
  inbox_.push_back(std::move(message));
  arrived_.Signal();
}

void SessionImpl::Violation(const absl::Status& what) {
  const std::string reason = absl::StrCat(peer(), " sent ", what.message());
  EndAndTell(absl::Status(what.code(), reason), reason);
}

void SessionImpl::Flush(int limit) {
  if (sending_) {
    send_more_ = true;
    return;
  }
  sending_ = true;
  bool came = false;
  bool any = false;
  do {
    send_more_ = false;
    while (!broken_ && limit > 0 && (!frame_.empty() || EncodeNext())) {
      --limit;
      std::string frame = std::exchange(frame_, std::string());
      mutex_.Unlock();
      const absl::StatusOr<bool> sent = connection_->TrySend(&frame);
      mutex_.Lock();
      if (!sent.ok()) {
        broken_ = true;  // Drain() says why, after what has arrived.
      } else if (!*sent) {
        frame_ = std::move(frame);
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

bool SessionImpl::EncodeNext() {
  CheckLease();
  if (mute_) return false;
  SessionFrame frame;
  if (!outgoing_.empty()) {
    frame.kind = outgoing_.front().kind;
    frame.message = std::move(outgoing_.front().message);
    frame.sequence = ++sent_;
    outgoing_.pop_front();
  } else if (!tell_now_) {
    return false;
  }
  frame.taken = told_taken_ = taken_;
  frame.window_bytes = static_cast<uint64_t>(own_window_bytes_);
  untold_bytes_ = 0;
  tell_now_ = false;
  frame_ = EncodeSessionFrame(frame);
  return true;
}

void SessionImpl::set_lease(absl::Duration lease) {
  DING_CHECK(lease >= kMinSessionLease) << "the lease is " << absl::FormatDuration(lease);
  MutexLock lock(&mutex_);
  lease_ = lease;
  period_ = PeriodOf(lease);
  next_look_ = absl::ZeroDuration();
  waker_->Wake();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Start(std::unique_ptr<Connection> connection,
                                                        const SessionOptions& options) {
  DING_CHECK(options.lease >= kMinSessionLease)
      << "the lease is " << absl::FormatDuration(options.lease);
  DING_CHECK(options.window >= 1) << "the window is " << options.window;
  DING_CHECK(options.first_window_bytes >= 0 && options.window_bytes >= kFirstWindowBytes)
      << "windows of " << options.first_window_bytes << " and " << options.window_bytes << " bytes";
  DING_ASSIGN_OR_RETURN(std::shared_ptr<SessionPump> pump, SessionPump::Get());
  return std::make_unique<SessionImpl>(std::move(pump), std::move(connection), options);
}

}  // namespace ding
