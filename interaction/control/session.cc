#include "ding_worker/interaction/control/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

using Kind = SessionFrame::Kind;

// The longest time between two looks of the pump at the lease and at what the peer has to be told.
constexpr absl::Duration kMaxPeriod = absl::Milliseconds(250);
// How long the connection may need to take the reason of an end, and what was sent before.
constexpr absl::Duration kPatience = absl::Milliseconds(500);
// The longest reason of an end, in bytes. Longer ones are cut off.
constexpr size_t kMaxReasonBytes = 4096;
// Frames, and bytes, that a thread of the pump takes before the next session has its turn.
constexpr size_t kBurst = 64;
constexpr size_t kBurstBytes = size_t{1} << 20;
// Answers that wait to be sent together, and how long they may wait.
constexpr size_t kAnswers = 16;
constexpr absl::Duration kAnswerDelay = absl::Milliseconds(5);

static_assert(kMaxSessionMessageBytes + static_cast<int64_t>(kSessionFrameBytes) <=
              kMaxMessageBytes);
static_assert(kMaxSessionMessageBytes + kMessageOverheadBytes <= kWindowBytes);

// Waiting goes by the machine's clock; SessionOptions::clock judges the lease.
absl::Duration RealTime() { return absl::Nanoseconds(Clock::Real()->MonotonicNanos()); }

absl::Duration PeriodOf(absl::Duration lease) { return std::min(lease / 8, kMaxPeriod); }

int64_t CostOf(const std::string& message) {
  return static_cast<int64_t>(message.size()) + kMessageOverheadBytes;
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
  return absl::WrapUnique(new Session(std::move(pump), std::move(connection), options));
}

Session::Session(std::shared_ptr<SessionPump> pump, std::unique_ptr<Connection> connection,
                 const SessionOptions& options)
    : options_(options),
      connection_(std::move(connection)),
      pump_(std::move(pump)),
      job_(pump_->Add([this] { return Work(); })),
      lease_(options.lease),
      heard_(LeaseTime()),
      period_(PeriodOf(options.lease)),
      last_sent_(RealTime()),
      own_window_bytes_(options.first_window_bytes) {
  connection_->SetMaxReceivedBytes(
      std::min(kMaxMessageBytes,
               std::max(options.first_window_bytes, static_cast<int64_t>(kMaxReasonBytes)) +
                   static_cast<int64_t>(kSessionFrameBytes)));
  connection_->SetReadyCallback([job = job_] { SessionPump::Wake(job.get()); });
  SessionPump::Wake(job_.get());
}

absl::Duration Session::Work() {
  const bool more = Drain();
  bool close = false;
  std::shared_ptr<const std::function<void()>> ready;
  absl::Duration again = absl::InfiniteDuration();
  {
    MutexLock lock(&mutex_);
    CheckLease();
    const absl::Duration now = RealTime();
    if (now >= next_look_) {
      next_look_ = now + period_;
      tell_now_ = tell_now_ || told_taken_ < taken_ || next_look_ > last_sent_ + lease_ / 4;
    }
    Flush();
    const bool over = !status_.ok();
    if (!connection_closing_) {
      close = connection_closing_ = MayCloseConnection();
      again = more    ? absl::ZeroDuration()
              : !over ? next_look_ - now
              : close ? absl::InfiniteDuration()
                      : close_by_ - now;
    }
    if ((receiver_waits_ && !inbox_.empty()) || (over && !told_end_)) {
      ready = ready_;
      if (ready != nullptr) {
        receiver_waits_ = false;
        told_end_ = over;
      }
    }
    if (over) changed_.SignalAll();
  }
  if (close) connection_->BeginClose();
  if (ready != nullptr) CallUserWhoMustNotThrow("the ready callback of a session", *ready);
  return std::max(again, absl::ZeroDuration());
}

// ---- sending

void Session::Admit() {
  connection_->SetMaxReceivedBytes(kMaxMessageBytes);
  MutexLock lock(&mutex_);
  own_window_bytes_ = std::max(own_window_bytes_, options_.window_bytes);
  tell_now_ = true;
  Flush();
}

absl::Status Session::Send(std::string message, absl::Duration timeout) {
  if (static_cast<int64_t>(message.size()) > kMaxSessionMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(), " bytes to ",
                                                   peer(), ", expected at most ",
                                                   kMaxSessionMessageBytes));
  }
  const Deadline deadline = Deadline::After(timeout);
  MutexLock lock(&mutex_);
  while (true) {
    CheckLease();
    if (!status_.ok()) return status_;
    if (TakeRoom(CostOf(message))) break;
    if (deadline.Passed()) {
      return absl::DeadlineExceededError(
          absl::StrCat(under_way_.size(), " messages of ", under_way_bytes_,
                       " bytes are under way to ", peer(), ", which takes ", options_.window,
                       " and ", peer_window_bytes_, ": no room for another one of ", message.size(),
                       " bytes in ", absl::FormatDuration(timeout)));
    }
    // No session is told when the budget has room again, so we look now and then.
    changed_.WaitFor(&mutex_, std::min(deadline.Left(), kMaxPeriod));
  }
  SessionFrame& frame = outgoing_.emplace_back();
  frame.kind = Kind::kMessage;
  frame.message = std::move(message);
  // A user that does not wait may answer each message that it takes. The answers to messages that
  // wait are sent together.
  if (timeout <= absl::ZeroDuration() && !inbox_.empty() && outgoing_.size() < kAnswers) {
    SessionPump::Wake(job_.get(), kAnswerDelay);
  } else {
    Flush();
  }
  return absl::OkStatus();
}

bool Session::TakeRoom(int64_t cost) {
  const int64_t window_bytes = std::min(peer_window_bytes_, options_.window_bytes);
  if (under_way_.size() >= static_cast<size_t>(options_.window) ||
      under_way_bytes_ + cost > window_bytes || !TakeBudget(cost)) {
    return false;
  }
  under_way_.push_back(cost);
  under_way_bytes_ += cost;
  return true;
}

void Session::Flush() {
  if (sending_) {
    send_more_ = true;
    return;
  }
  sending_ = true;
  bool came = false;  // whether another thread has called it meanwhile
  std::string frame;
  do {
    send_more_ = false;
    while (NextFrame(&frame)) {
      mutex_.Unlock();
      const absl::StatusOr<bool> sent = connection_->TrySend(&frame);
      mutex_.Lock();
      last_sent_ = RealTime();
      if (!sent.ok()) {
        mute_ = true;  // Drain() says why, after what has arrived.
      } else if (!*sent) {
        frame_ = std::move(frame);
        break;
      }
    }
    came = came || send_more_;
  } while (send_more_);
  sending_ = false;
  // Work() may have found us here, and waits for us to be done before it closes the connection.
  if (came && !status_.ok()) SessionPump::Wake(job_.get());
}

bool Session::NextFrame(std::string* frame) {
  CheckLease();
  if (mute_) return false;
  if (!frame_.empty()) {
    *frame = std::exchange(frame_, std::string());
    return true;
  }
  SessionFrame next;
  if (!outgoing_.empty()) {
    next = std::move(outgoing_.front());
    next.sequence = ++sent_;
    outgoing_.pop_front();
  } else if (!tell_now_) {
    return false;
  }
  next.taken = told_taken_ = taken_;
  next.window_bytes = static_cast<uint64_t>(own_window_bytes_);
  untold_bytes_ = 0;
  tell_now_ = false;
  *frame = EncodeSessionFrame(std::move(next));
  return true;
}

// ---- receiving

absl::StatusOr<std::string> Session::Receive(absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  MutexLock lock(&mutex_);
  while (true) {
    CheckLease();
    if (!inbox_.empty()) break;
    if (!status_.ok()) return status_;
    if (deadline.Passed()) {
      if (!outgoing_.empty()) Flush();
      receiver_waits_ = true;
      return absl::DeadlineExceededError(
          absl::StrCat("no message from ", peer(), " in ", absl::FormatDuration(timeout)));
    }
    changed_.WaitUntil(&mutex_, deadline);
  }
  std::string message = std::move(inbox_.front());
  inbox_.pop_front();
  const int64_t cost = CostOf(message);
  inbox_bytes_ -= cost;
  ReturnBudget(cost);
  ++taken_;
  untold_bytes_ += cost;
  // The peer is told at once if that is a good part of its window, lest it waits for room.
  // Otherwise it is told with the next message or at the end of the pump's period.
  const uint64_t many = std::max<uint64_t>(1, static_cast<uint64_t>(options_.window) / 4);
  if (taken_ - told_taken_ >= many || untold_bytes_ >= own_window_bytes_ / 4) {
    tell_now_ = true;
    Flush();
  }
  return message;
}

void Session::SetReadyCallback(std::function<void()> ready) {
  MutexLock lock(&mutex_);
  ready_ = std::make_shared<const std::function<void()>>(std::move(ready));
  SessionPump::Wake(job_.get());
}

bool Session::Drain() {
  std::vector<std::string> frames;
  size_t bytes = 0;
  absl::StatusOr<bool> received = true;
  while (frames.size() < kBurst && bytes < kBurstBytes) {
    std::string frame;
    received = connection_->TryReceive(&frame);
    if (!received.ok() || !*received) break;
    bytes += frame.size();
    frames.push_back(std::move(frame));
  }
  MutexLock lock(&mutex_);
  CheckLease();
  has_heard_ |= !frames.empty();
  for (std::string& frame : frames) {
    if (status_.ok()) TakeFrame(std::move(frame));
  }
  if (!received.ok()) End(absl::UnavailableError(received.status().message()), std::nullopt);
  if (!frames.empty()) changed_.SignalAll();
  return status_.ok() && *received;
}

void Session::TakeFrame(std::string bytes) {
  absl::StatusOr<SessionFrame> frame = DecodeSessionFrame(std::move(bytes));
  if (!frame.ok()) return EndForViolation(frame.status());
  if (frame->taken > sent_) {
    return EndForViolation(absl::DataLossError(
        absl::StrCat("that it has taken ", frame->taken, " messages of ", sent_, " sent ones")));
  }
  heard_ = LeaseTime();
  TakeProgress(*frame);
  if (frame->kind == Kind::kSignOfLife) return;
  if (frame->sequence != received_ + 1) {
    return EndForViolation(absl::DataLossError(
        absl::StrCat("message ", frame->sequence, ", expected message ", received_ + 1)));
  }
  ++received_;
  if (frame->kind == Kind::kMessage) return TakeMessage(std::move(frame->message));
  const absl::string_view reason = absl::string_view(frame->message).substr(0, kMaxReasonBytes);
  End(absl::AbortedError(absl::StrCat(peer(), " closed the session: ", reason)), std::nullopt);
}

void Session::TakeProgress(const SessionFrame& frame) {
  const int64_t window_bytes = static_cast<int64_t>(
      std::min<uint64_t>(frame.window_bytes, static_cast<uint64_t>(options_.window_bytes)));
  peer_window_bytes_ = std::max(peer_window_bytes_, window_bytes);
  for (; peer_taken_ < frame.taken; ++peer_taken_) {
    under_way_bytes_ -= under_way_.front();
    ReturnBudget(under_way_.front());
    under_way_.pop_front();
  }
}

void Session::TakeMessage(std::string message) {
  const int64_t cost = CostOf(message);
  if (inbox_.size() >= static_cast<size_t>(options_.window) ||
      inbox_bytes_ + cost > own_window_bytes_) {
    return EndForViolation(absl::ResourceExhaustedError(
        absl::StrCat("a message of ", message.size(), " bytes beyond its window: ", inbox_.size(),
                     " messages of ", inbox_bytes_, " bytes wait, expected at most ",
                     options_.window, " of ", own_window_bytes_)));
  }
  if (!TakeBudget(cost)) {
    return EndForViolation(absl::ResourceExhaustedError(absl::StrCat(
        "a message of ", message.size(), " bytes, for which there is no room: all sessions hold ",
        options_.budget->taken(), " bytes of ", options_.budget->bytes(), ", this one ",
        under_way_bytes_ + inbox_bytes_)));
  }
  inbox_bytes_ += cost;
  inbox_.push_back(std::move(message));
}

void Session::DropInbox() {
  inbox_.clear();
  ReturnBudget(std::exchange(inbox_bytes_, 0));
}

bool Session::TakeBudget(int64_t cost) {
  return options_.budget == nullptr || options_.budget->Take(under_way_bytes_ + inbox_bytes_, cost);
}

void Session::ReturnBudget(int64_t cost) {
  if (options_.budget != nullptr) options_.budget->Return(cost);
}

// ---- the end

absl::Status Session::CurrentStatus() const {
  if (!status_.ok() || LeaseTime() - heard_ < lease_) return status_;
  return absl::UnavailableError(absl::StrCat("nothing was heard of ", peer(), " for ",
                                             absl::FormatDuration(lease_),
                                             ", the length of the lease"));
}

void Session::CheckLease() {
  const absl::Status status = CurrentStatus();
  if (!status_.ok() || status.ok()) return;
  End(status, std::nullopt);
  DropInbox();
}

void Session::End(const absl::Status& status, std::optional<absl::string_view> reason) {
  if (!status_.ok()) return;
  status_ = status;
  close_by_ = RealTime() + kPatience;
  if (reason.has_value()) {
    SessionFrame& frame = outgoing_.emplace_back();
    frame.kind = Kind::kClose;
    frame.message = std::string(reason->substr(0, kMaxReasonBytes));
  } else {
    mute_ = true;
    outgoing_.clear();
  }
  changed_.SignalAll();
  SessionPump::Wake(job_.get());
}

void Session::EndForViolation(const absl::Status& what) {
  const std::string reason = absl::StrCat(peer(), " sent ", what.message());
  End(absl::Status(what.code(), reason), reason);
}

void Session::EndByUser(absl::string_view reason) {
  CheckLease();
  End(absl::CancelledError(absl::StrCat("the session with ", peer(), " was closed here: ", reason)),
      reason);
  DropInbox();
}

bool Session::exhausted() {
  MutexLock lock(&mutex_);
  CheckLease();
  return !status_.ok() && inbox_.empty();
}

bool Session::has_heard() const {
  MutexLock lock(&mutex_);
  return has_heard_;
}

absl::Duration Session::LeaseLeft() const {
  MutexLock lock(&mutex_);
  if (!CurrentStatus().ok()) return absl::ZeroDuration();
  return lease_ - (LeaseTime() - heard_);
}

absl::Status Session::status() const {
  MutexLock lock(&mutex_);
  return CurrentStatus();
}

void Session::BeginClose(absl::string_view reason) {
  MutexLock lock(&mutex_);
  EndByUser(reason);
}

void Session::Close(absl::string_view reason) {
  {
    MutexLock lock(&mutex_);
    if (close_called_) {
      while (!closed_) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
      return;
    }
    close_called_ = true;
    EndByUser(reason);
    while (!connection_closing_ && !MayCloseConnection()) {
      changed_.WaitFor(&mutex_, close_by_ - RealTime());
    }
    connection_closing_ = true;
  }
  pump_->Remove(job_.get());
  connection_->Close();
  MutexLock lock(&mutex_);
  for (const int64_t cost : under_way_) ReturnBudget(cost);
  under_way_.clear();
  closed_ = true;
  changed_.SignalAll();
}

bool Session::MayCloseConnection() const {
  if (status_.ok()) return false;
  const bool told = !sending_ && outgoing_.empty() && frame_.empty();
  return mute_ || told || RealTime() >= close_by_;
}

void Session::set_lease(absl::Duration lease) {
  DING_CHECK(lease >= kMinSessionLease) << "the lease is " << absl::FormatDuration(lease);
  MutexLock lock(&mutex_);
  lease_ = lease;
  period_ = PeriodOf(lease);
  next_look_ = absl::ZeroDuration();
  SessionPump::Wake(job_.get());
}

}  // namespace ding
