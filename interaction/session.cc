#include "ding_worker/interaction/session.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/session_frame.h"

namespace ding {
namespace {

using Kind = SessionFrame::Kind;

// How long either side of a Close() goes on so that the reason arrives.
constexpr absl::Duration kPatience = absl::Milliseconds(500);
// Of a reason.
constexpr size_t kMaxReasonBytes = 4096;

static_assert(kMaxSessionMessageBytes + static_cast<int64_t>(kSessionFrameBytes) <=
              kMaxMessageBytes);

// Waiting and sending again go by the machine's clock; SessionOptions::clock judges the lease.
absl::Duration RealTime() { return absl::Nanoseconds(Clock::Real()->MonotonicNanos()); }

absl::Duration PeriodOf(absl::Duration lease, absl::Duration resend) {
  return std::min(lease / 8, resend / 4);
}

// The reader takes frames from the connection and never sends, the writer sends and never waits for
// the reader: so full queues at both ends cannot lock each other.
//
//     Send() ──► outgoing_ ──writer──► connection ──reader──► early_ ──► inbox_ ──► Receive()
//
// Numbers of messages, 1 being the first:
//     acked_ <= attempted_   outgoing_ holds acked_ + 1 and so on
//     taken_ <= received_    inbox_ holds taken_ + 1 to received_, early_ some behind that
class SessionImpl : public Session {
 public:
  SessionImpl(std::unique_ptr<Connection> connection, const SessionOptions& options)
      : options_(options),
        window_(static_cast<uint64_t>(options.window)),
        connection_(std::move(connection)),
        lease_(options.lease),
        period_(PeriodOf(options.lease, options.resend)),
        heard_(LeaseTime()) {
    reader_ = std::thread([this] { Read(); });
    writer_ = std::thread([this] { Write(); });
  }
  ~SessionImpl() override { SessionImpl::Close("its owner is gone"); }

  absl::Status Send(std::string message, absl::Duration timeout) override;
  absl::StatusOr<std::string> Receive(absl::Duration timeout) override;
  absl::Status status() const override;
  void Close(absl::string_view reason) override;
  void set_lease(absl::Duration lease) override;
  const std::string& peer() const override { return connection_->peer(); }
  absl::string_view identity() const override { return connection_->identity(); }

 private:
  struct Outgoing {
    Kind kind = Kind::kMessage;
    std::string message;
    absl::Duration sent_at;
  };
  struct Incoming {
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
  // For good; the first cause counts.
  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The reader.
  void Read();
  void Take(std::string bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeAcknowledgement(const SessionFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeNumbered(SessionFrame frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver(Incoming incoming) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The writer.
  void Write();
  // The number of the message to be sent now; 0: none.
  uint64_t NextToSend() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FirstIsOverdue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With message `sequence`, unless it is 0. Releases the mutex while it waits.
  void SendFrame(uint64_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AcknowledgeNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    acknowledge_now_ = true;
    work_.Signal();
  }
  // Something new arrived or was taken; the peer is told at once if that is a good part of its
  // window, else with the next message or at the end of the period.
  void NoteProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t untold = std::max(received_ - told_received_, taken_ - told_taken_);
    if (untold >= std::max<uint64_t>(1, window_ / 4) && !acknowledge_now_) AcknowledgeNow();
  }

  absl::Duration Period() const {
    MutexLock lock(&mutex_);
    return period_;
  }

  const SessionOptions options_;
  const uint64_t window_;
  const std::unique_ptr<Connection> connection_;

  mutable Mutex mutex_;
  CondVar room_;     // for Send()
  CondVar arrived_;  // for Receive()
  CondVar work_;     // for the writer
  CondVar settled_;  // for Close()

  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;  // reader and writer are to end
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool peer_closed_ ABSL_GUARDED_BY(mutex_) = false;
  // A peer that closed and did not hear that we know says it again; until then, we answer.
  absl::Duration answer_until_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  // How often the writer looks after the lease, overdue frames and acknowledgements, at least.
  absl::Duration period_ ABSL_GUARDED_BY(mutex_);
  absl::Duration heard_ ABSL_GUARDED_BY(mutex_);  // by the clock of the lease

  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mutex_);
  uint64_t acked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t attempted_ ABSL_GUARDED_BY(mutex_) = 0;  // given to the connection, taken or not
  uint64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;       // that it took
  uint64_t peer_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // the connection sends no more
  absl::Duration last_sent_ ABSL_GUARDED_BY(mutex_) = RealTime();

  std::deque<std::string> inbox_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Incoming> early_ ABSL_GUARDED_BY(mutex_);
  uint64_t received_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t told_received_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t told_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  bool acknowledge_now_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread reader_;
  std::thread writer_;
};

absl::Status SessionImpl::Send(std::string message, absl::Duration timeout) {
  if (static_cast<int64_t>(message.size()) > kMaxSessionMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(), " bytes to ",
                                                   peer(), ", expected at most ",
                                                   kMaxSessionMessageBytes));
  }
  const absl::Duration deadline = RealTime() + timeout;
  MutexLock lock(&mutex_);
  while (true) {
    CheckLease();
    if (!status_.ok()) return status_;
    if (acked_ + outgoing_.size() - peer_taken_ < window_) break;
    const absl::Duration left = deadline - RealTime();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(window_, " messages are under way to ",
                                                      peer(), ", which took none of them in ",
                                                      absl::FormatDuration(timeout)));
    }
    room_.WaitFor(&mutex_, left);
  }
  outgoing_.push_back({Kind::kMessage, std::move(message), absl::ZeroDuration()});
  work_.Signal();
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
  ++taken_;
  NoteProgress();
  return message;
}

absl::Status SessionImpl::status() const {
  MutexLock lock(&mutex_);
  return status_.ok() && Expired() ? LeaseRanOut() : status_;
}

void SessionImpl::Close(absl::string_view reason) {
  {
    MutexLock lock(&mutex_);
    if (closing_) {
      while (!closed_) settled_.WaitFor(&mutex_, absl::InfiniteDuration());
      return;
    }
    CheckLease();
    closing_ = true;
    inbox_.clear();
    const bool tell = status_.ok();
    if (tell) {
      status_ = absl::CancelledError(
          absl::StrCat("the session with ", peer(), " was closed here: ", reason));
      outgoing_.push_back(
          {Kind::kClose, std::string(reason.substr(0, kMaxReasonBytes)), absl::ZeroDuration()});
    }
    WakeAll();
    const absl::Duration deadline = RealTime() + kPatience;
    while (!stop_ && !broken_ && ((tell && !outgoing_.empty()) || acknowledge_now_)) {
      const absl::Duration left = deadline - RealTime();
      if (left <= absl::ZeroDuration()) break;
      settled_.WaitFor(&mutex_, left);
    }
    stop_ = true;
    WakeAll();
  }
  connection_->Close();
  reader_.join();
  writer_.join();
  MutexLock lock(&mutex_);
  closed_ = true;
  settled_.SignalAll();
}

void SessionImpl::CheckLease() {
  if (stop_ || !Expired()) return;
  // Whoever replaced us may have been given the same.
  if (status_.ok()) inbox_.clear();
  End(LeaseRanOut());
}

void SessionImpl::End(const absl::Status& status) {
  if (status_.ok()) status_ = status;
  stop_ = true;
  WakeAll();
}

void SessionImpl::WakeAll() {
  room_.SignalAll();
  arrived_.SignalAll();
  work_.SignalAll();
  settled_.SignalAll();
}

void SessionImpl::Read() {
  while (true) {
    absl::StatusOr<std::string> bytes = connection_->Receive(Period());
    MutexLock lock(&mutex_);
    CheckLease();
    if (stop_) return;
    if (bytes.ok()) {
      Take(*std::move(bytes));
    } else if (!absl::IsDeadlineExceeded(bytes.status())) {
      End(absl::UnavailableError(bytes.status().message()));
    }
    if (stop_) return;
  }
}

void SessionImpl::Take(std::string bytes) {
  absl::StatusOr<SessionFrame> frame = DecodeSessionFrame(std::move(bytes));
  if (!frame.ok()) {
    return End(absl::DataLossError(absl::StrCat(peer(), " sent ", frame.status().message())));
  }
  if (frame->acknowledged > attempted_) {
    return End(
        absl::DataLossError(absl::StrCat(peer(), " acknowledges message ", frame->acknowledged,
                                         " of ", attempted_, " that were sent")));
  }
  heard_ = LeaseTime();
  TakeAcknowledgement(*frame);
  if (frame->kind != Kind::kAcknowledgement) TakeNumbered(*std::move(frame));
}

void SessionImpl::TakeAcknowledgement(const SessionFrame& frame) {
  if (frame.acknowledged > acked_) {
    for (; acked_ < frame.acknowledged; ++acked_) outgoing_.pop_front();
    if (FirstIsOverdue()) work_.Signal();
    settled_.SignalAll();
  }
  if (frame.taken > peer_taken_) {
    peer_taken_ = frame.taken;
    room_.SignalAll();
  }
}

void SessionImpl::TakeNumbered(SessionFrame frame) {
  if (frame.sequence <= received_ || peer_closed_) return AcknowledgeNow();
  // One more than the window, for the close. The peer's window may be larger than ours.
  if (frame.sequence - taken_ > window_ + 1) return;
  Incoming incoming{frame.kind, std::move(frame.message)};
  if (frame.sequence != received_ + 1) {
    early_.emplace(frame.sequence, std::move(incoming));
    return;
  }
  Deliver(std::move(incoming));
  const bool waited = !early_.empty();
  while (!early_.empty() && early_.begin()->first == received_ + 1 && !peer_closed_) {
    Deliver(std::move(early_.begin()->second));
    early_.erase(early_.begin());
  }
  // The peer sends the next that is missing when it hears of these.
  if (waited || peer_closed_) {
    AcknowledgeNow();
  } else {
    NoteProgress();
  }
}

void SessionImpl::Deliver(Incoming incoming) {
  ++received_;
  if (incoming.kind == Kind::kMessage) {
    if (closing_) return;
    inbox_.push_back(std::move(incoming.message));
    arrived_.Signal();
    return;
  }
  peer_closed_ = true;
  if (!status_.ok()) return;
  status_ = absl::AbortedError(absl::StrCat(peer(), " closed the session: ", incoming.message));
  answer_until_ = RealTime() + kPatience;
  WakeAll();
}

void SessionImpl::Write() {
  {
    MutexLock lock(&mutex_);
    absl::Duration next_look = RealTime() + period_;
    while (true) {
      CheckLease();
      const absl::Duration now = RealTime();
      if (stop_ || now >= answer_until_) break;
      const bool looks = now >= next_look;
      if (looks) next_look = now + period_;
      const uint64_t next = NextToSend();
      const bool untold = told_received_ < received_ || told_taken_ < taken_;
      const bool silent = now + period_ > last_sent_ + lease_ / 4;
      if (!broken_ && (next > 0 || acknowledge_now_ || (looks && (untold || silent)))) {
        SendFrame(next);
      } else {
        work_.WaitFor(&mutex_, next_look - now);
      }
    }
    stop_ = true;
  }
  connection_->Close();
}

bool SessionImpl::FirstIsOverdue() const {
  return acked_ < sent_ && RealTime() - outgoing_.front().sent_at >= options_.resend;
}

uint64_t SessionImpl::NextToSend() const {
  if (!status_.ok() && !closing_) return 0;
  // The first is the one that the peer misses; when it is there, the next may be.
  if (FirstIsOverdue()) return acked_ + 1;
  const uint64_t next = std::max(sent_, acked_) + 1;
  return next <= acked_ + outgoing_.size() ? next : 0;
}

void SessionImpl::SendFrame(uint64_t sequence) {
  SessionFrame frame;
  frame.acknowledged = received_;
  frame.taken = taken_;
  if (sequence > 0) {
    const Outgoing& outgoing = outgoing_[static_cast<size_t>(sequence - acked_ - 1)];
    frame.kind = outgoing.kind;
    frame.sequence = sequence;
    frame.message = outgoing.message;
    attempted_ = std::max(attempted_, sequence);
  }
  const uint64_t told_received = received_;
  const uint64_t told_taken = taken_;
  const bool acknowledge_now = std::exchange(acknowledge_now_, false);
  const absl::Duration period = period_;
  mutex_.Unlock();
  const absl::Status status = connection_->Send(EncodeSessionFrame(std::move(frame)), period);
  mutex_.Lock();
  if (!status.ok()) {
    acknowledge_now_ = acknowledge_now_ || acknowledge_now;
    // The reader says why, after what has arrived.
    broken_ = broken_ || !absl::IsDeadlineExceeded(status);
    settled_.SignalAll();
    return;
  }
  last_sent_ = RealTime();
  told_received_ = told_received;
  told_taken_ = told_taken;
  sent_ = std::max(sent_, sequence);
  if (sequence > acked_) outgoing_[static_cast<size_t>(sequence - acked_ - 1)].sent_at = last_sent_;
  settled_.SignalAll();
}

void SessionImpl::set_lease(absl::Duration lease) {
  DING_CHECK(lease >= kMinSessionLease) << "the lease is " << absl::FormatDuration(lease);
  MutexLock lock(&mutex_);
  lease_ = lease;
  period_ = PeriodOf(lease, options_.resend);
  work_.SignalAll();
}

}  // namespace

std::unique_ptr<Session> Session::Start(std::unique_ptr<Connection> connection,
                                        const SessionOptions& options) {
  DING_CHECK(options.lease >= kMinSessionLease)
      << "the lease is " << absl::FormatDuration(options.lease);
  DING_CHECK(options.resend > absl::ZeroDuration())
      << "resend is " << absl::FormatDuration(options.resend);
  DING_CHECK(options.window >= 1) << "the window is " << options.window;
  return std::make_unique<SessionImpl>(std::move(connection), options);
}

}  // namespace ding
