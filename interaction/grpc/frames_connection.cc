#include "ding_worker/interaction/grpc/frames_connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

// A write has no further message once it is that large: enough to make system calls cheap, little
// enough to be under way soon.
constexpr int64_t kFramesBytes = int64_t{256} << 10;

}  // namespace

void FramesConnection::Queue::Push(std::string message) {
  bytes += static_cast<int64_t>(message.size());
  messages.push_back(std::move(message));
}

std::string FramesConnection::Queue::Pop() {
  std::string message = std::move(messages.front());
  messages.pop_front();
  bytes -= static_cast<int64_t>(message.size());
  return message;
}

void FramesConnection::Queue::Clear() {
  messages.clear();
  bytes = 0;
}

FramesConnection::FramesConnection(std::string peer) : peer_(std::move(peer)) {}

absl::Status FramesConnection::Send(std::string message, absl::Duration timeout) {
  if (static_cast<int64_t>(message.size()) > kMaxMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(), " bytes to ",
                                                   peer_, "; at most ", kMaxMessageBytes,
                                                   " are allowed"));
  }
  const absl::Time deadline = absl::Now() + timeout;
  {
    MutexLock lock(&mutex_);
    while (to_send_.full() && !closing_ && !sending_over_ && absl::Now() < deadline) {
      sendable_.WaitUntil(&mutex_, deadline);
    }
    if (closing_) return Closed();
    if (sending_over_) return PeerGone();
    if (to_send_.full()) {
      return absl::DeadlineExceededError(
          absl::StrCat(peer_, " took none of ", to_send_.messages.size(), " waiting messages for ",
                       absl::FormatDuration(timeout)));
    }
    to_send_.Push(std::move(message));
    if (writing_) return absl::OkStatus();
  }
  Advance();
  return absl::OkStatus();
}

absl::StatusOr<std::string> FramesConnection::Receive(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  std::string message;
  {
    MutexLock lock(&mutex_);
    while (received_.messages.empty() && !closing_ && !receiving_over_ && absl::Now() < deadline) {
      receivable_.WaitUntil(&mutex_, deadline);
    }
    if (closing_) return Closed();
    if (received_.messages.empty()) {
      if (receiving_over_) return PeerGone();
      return absl::DeadlineExceededError(
          absl::StrCat(peer_, " sent no message for ", absl::FormatDuration(timeout)));
    }
    message = received_.Pop();
    if (reading_ || read_ended_ || received_.full()) return message;
  }
  Advance();
  return message;
}

void FramesConnection::CloseWithin(absl::Duration flush) {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    received_.Clear();
    receivable_.SignalAll();
    sendable_.SignalAll();
  }
  Advance();
  const absl::Time deadline = absl::Now() + flush;
  MutexLock lock(&mutex_);
  while (!gone_ && absl::Now() < deadline) state_.WaitUntil(&mutex_, deadline);
  if (!gone_) CancelOnce();
  // Not for long: everything that was under way has been cancelled.
  while (!gone_) state_.WaitFor(&mutex_, absl::InfiniteDuration());
}

absl::Status FramesConnection::WaitUntilOpen(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  while (!opened_ && !gone_ && absl::Now() < deadline) state_.WaitUntil(&mutex_, deadline);
  if (opened_) return absl::OkStatus();
  if (gone_) return PeerGone();
  return absl::DeadlineExceededError(
      absl::StrCat(peer_, " took no connection for ", absl::FormatDuration(timeout)));
}

bool FramesConnection::exhausted() const {
  MutexLock lock(&mutex_);
  return read_ended_ && received_.messages.empty();
}

void FramesConnection::Advance() {
  bool read = false, write = false, goodbye = false, release = false;
  {
    MutexLock lock(&mutex_);
    const bool room = closing_ || receiving_over_ || !received_.full();
    if (room && !reading_ && !read_ended_) read = reading_ = true;
    if (sending_over_) to_send_.Clear();
    if (!writing_ && !write_ended_) {
      if (!to_send_.messages.empty()) {
        FillOutgoing();
        write = writing_ = true;
        sendable_.SignalAll();
      } else if ((closing_ || sending_over_) && !read_ended_) {
        goodbye = writing_ = write_ended_ = true;
      }
    }
    if (read_ended_ && !writing_ && !released_) release = released_ = true;
  }
  // What the flags say is under way keeps the stream from being released until it is.
  if (write) StartWrite(&outgoing_);
  if (goodbye) StartGoodbye();
  if (read) StartRead(&incoming_);
  if (release) Release();
}

void FramesConnection::Opened() {
  MutexLock lock(&mutex_);
  opened_ = true;
  state_.SignalAll();
}

void FramesConnection::ReadDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    reading_ = false;
    if (!ok) {
      read_ended_ = true;
      PeerClosed();
    } else if (incoming_.message_size() == 0) {
      PeerClosed();
    } else if (!closing_ && !receiving_over_) {
      const absl::Status status = TakeFrames();
      if (!status.ok()) {
        reason_ = std::string(status.message());
        PeerClosed();
        CancelOnce();
      }
    }
    receivable_.SignalAll();
  }
  Advance();
}

void FramesConnection::WriteDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    outgoing_ = link::Frames();
    if (!ok) {
      // What the peer had sent before it went may still be on its way to us.
      write_ended_ = sending_over_ = true;
      sendable_.SignalAll();
    }
  }
  Advance();
}

void FramesConnection::Gone(absl::string_view reason) {
  MutexLock lock(&mutex_);
  DING_CHECK(released_);
  if (reason_.empty()) reason_ = std::string(reason);
  gone_ = true;
  state_.SignalAll();
}

absl::Status FramesConnection::TakeFrames() {
  if (incoming_.message_size() > kMaxQueuedMessages) {
    return absl::InvalidArgumentError(absl::StrCat("frames of ", incoming_.message_size(),
                                                   " messages; at most ", kMaxQueuedMessages));
  }
  for (const std::string& message : incoming_.message()) {
    if (static_cast<int64_t>(message.size()) > kMaxMessageBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a message of ", message.size(), " bytes; at most ", kMaxMessageBytes));
    }
  }
  for (std::string& message : *incoming_.mutable_message()) received_.Push(std::move(message));
  return absl::OkStatus();
}

void FramesConnection::FillOutgoing() {
  outgoing_.Clear();
  int64_t bytes = 0;
  do {
    bytes += static_cast<int64_t>(to_send_.messages.front().size());
    outgoing_.add_message(to_send_.Pop());
  } while (!to_send_.messages.empty() &&
           bytes + static_cast<int64_t>(to_send_.messages.front().size()) <= kFramesBytes);
}

void FramesConnection::PeerClosed() {
  receiving_over_ = sending_over_ = true;
  receivable_.SignalAll();
  sendable_.SignalAll();
}

absl::Status FramesConnection::Closed() const {
  return absl::CancelledError(absl::StrCat("the connection to ", peer_, " was closed"));
}

absl::Status FramesConnection::PeerGone() const {
  return absl::UnavailableError(reason_.empty() ? absl::StrCat(peer_, " has closed the connection")
                                                : absl::StrCat(peer_, " is gone: ", reason_));
}

void FramesConnection::CancelOnce() {
  if (cancelled_) return;
  cancelled_ = true;
  Cancel();
}

}  // namespace ding
