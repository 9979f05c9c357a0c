#include "ding_worker/interaction/control/session_protocol.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"

namespace ding {
namespace {

using Kind = SessionFrame::Kind;

// How long the connection may need to take the reason of a close, and what was sent before.
constexpr absl::Duration kPatience = absl::Milliseconds(500);

static_assert(kMaxSessionMessageBytes + static_cast<int64_t>(kSessionFrameBytes) <=
              kMaxMessageBytes);
static_assert(kMaxSessionMessageBytes + kMessageOverheadBytes <= kWindowBytes);

// The last words have their time by the machine's clock; SessionOptions::clock judges the lease.
absl::Duration RealTime() { return absl::Nanoseconds(Clock::Real()->MonotonicNanos()); }

int64_t CostOf(const std::string& message) {
  return static_cast<int64_t>(message.size()) + kMessageOverheadBytes;
}

}  // namespace

SessionProtocol::SessionProtocol(const SessionOptions& options, const std::string& peer,
                                 Observer* observer)
    : options_(options),
      peer_(peer),
      observer_(observer),
      lease_(options.lease),
      heard_(LeaseTime()),
      own_window_bytes_(options.first_window_bytes) {}

void SessionProtocol::Admit() {
  own_window_bytes_ = std::max(own_window_bytes_, options_.window_bytes);
  tell_now_ = true;
}

bool SessionProtocol::TakeRoom(int64_t cost) {
  if (under_way_.size() >= static_cast<size_t>(options_.window)) return false;
  const int64_t window_bytes = std::min(peer_window_bytes_, options_.window_bytes);
  if (under_way_bytes_ + cost > window_bytes || !TakeBudget(cost)) return false;
  under_way_.push_back(cost);
  under_way_bytes_ += cost;
  return true;
}

bool SessionProtocol::Send(std::string* message) {
  if (!TakeRoom(CostOf(*message))) return false;
  outgoing_.push_back({Kind::kMessage, std::move(*message)});
  return true;
}

absl::Status SessionProtocol::NoRoom(size_t bytes, absl::Duration timeout) const {
  return absl::DeadlineExceededError(absl::StrCat(
      under_way_.size(), " messages of ", under_way_bytes_, " bytes are under way to ", peer_,
      ", which takes ", options_.window, " and ", peer_window_bytes_,
      ": no room for another one of ", bytes, " bytes in ", absl::FormatDuration(timeout)));
}

bool SessionProtocol::NextFrame(std::string* frame) {
  if (frame_.empty() && !EncodeNext()) return false;
  *frame = std::exchange(frame_, std::string());
  return true;
}

bool SessionProtocol::EncodeNext() {
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

std::string SessionProtocol::Receive(bool* tell) {
  std::string message = std::move(inbox_.front());
  inbox_.pop_front();
  const int64_t cost = CostOf(message);
  inbox_bytes_ -= cost;
  ReturnBudget(cost);
  ++taken_;
  untold_bytes_ += cost;
  // The peer is told at once if that is a good part of its window, else with the next message or at
  // the end of the pump's period.
  const uint64_t many = std::max<uint64_t>(1, static_cast<uint64_t>(options_.window) / 4);
  *tell = taken_ - told_taken_ >= many || untold_bytes_ >= own_window_bytes_ / 4;
  tell_now_ = tell_now_ || *tell;
  return message;
}

void SessionProtocol::Take(std::string bytes) {
  absl::StatusOr<SessionFrame> frame = DecodeSessionFrame(std::move(bytes));
  if (absl::IsFailedPrecondition(frame.status())) {
    const std::string what = absl::StrCat(peer_, " sent ", frame.status().message());
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
      peer_,
      " closed the session: ", absl::string_view(frame->message).substr(0, kMaxReasonBytes))));
}

void SessionProtocol::TakeProgress(const SessionFrame& frame) {
  const int64_t window_bytes = static_cast<int64_t>(
      std::min<uint64_t>(frame.window_bytes, static_cast<uint64_t>(options_.window_bytes)));
  if (frame.taken <= peer_taken_ && window_bytes <= peer_window_bytes_) return;
  peer_window_bytes_ = std::max(peer_window_bytes_, window_bytes);
  for (; peer_taken_ < frame.taken; ++peer_taken_) {
    under_way_bytes_ -= under_way_.front();
    ReturnBudget(under_way_.front());
    under_way_.pop_front();
  }
  observer_->OnRoom();
}

void SessionProtocol::TakeMessage(std::string message) {
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
  observer_->OnArrived();
}

void SessionProtocol::Violation(const absl::Status& what) {
  const std::string reason = absl::StrCat(peer_, " sent ", what.message());
  EndAndTell(absl::Status(what.code(), reason), reason);
}

absl::Status SessionProtocol::LeaseRanOut() const {
  return absl::UnavailableError(absl::StrCat("nothing was heard of ", peer_, " for ",
                                             absl::FormatDuration(lease_),
                                             ", the length of the lease"));
}

void SessionProtocol::CheckLease() {
  if (!status_.ok() || !Expired()) return;
  // Whoever has replaced us may have been given the same messages.
  DropInbox();
  EndSilently(LeaseRanOut());
}

void SessionProtocol::BeginClose(absl::string_view reason) {
  CheckLease();
  EndAndTell(
      absl::CancelledError(absl::StrCat("the session with ", peer_, " was closed here: ", reason)),
      reason);
  DropInbox();
}

void SessionProtocol::EndAndTell(const absl::Status& status, absl::string_view reason) {
  if (!status_.ok()) return;
  status_ = status;
  outgoing_.push_back({Kind::kClose, std::string(reason.substr(0, kMaxReasonBytes))});
  close_by_ = RealTime() + kPatience;
  observer_->OnEnd();
}

void SessionProtocol::EndSilently(const absl::Status& status) {
  if (!status_.ok()) return;
  status_ = status;
  mute_ = true;
  outgoing_.clear();
  close_by_ = RealTime();
  observer_->OnEnd();
}

void SessionProtocol::DropInbox() {
  inbox_.clear();
  ReturnBudget(inbox_bytes_);
  inbox_bytes_ = 0;
}

void SessionProtocol::ReturnUnderWay() {
  for (const int64_t cost : under_way_) ReturnBudget(cost);
  under_way_.clear();
  under_way_bytes_ = 0;
}

}  // namespace ding
