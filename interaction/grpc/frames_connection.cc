#include "ding_worker/interaction/grpc/frames_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/grpc/grpc_log.h"

namespace ding {
namespace {

using Ready = std::shared_ptr<const std::function<void()>>;

void Call(const Ready& ready) {
  if (ready == nullptr || *ready == nullptr) return;
  CallUserWhoMustNotThrow("the ready callback of a connection", *ready);
}

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

FramesConnection::FramesConnection(std::string peer, bool waits)
    : peer_(std::move(peer)), waits_(waits) {}

absl::Status FramesConnection::Send(std::string message, absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  while (true) {
    DING_ASSIGN_OR_RETURN(const bool sent, TrySend(&message));
    if (sent) return absl::OkStatus();
    MutexLock lock(&mutex_);
    while (!to_send_.HasRoom(static_cast<int64_t>(message.size())) && !closing_ && !sending_over_) {
      if (deadline.Passed()) {
        return absl::DeadlineExceededError(
            absl::StrCat(peer_, " received none of ", to_send_.messages.size(),
                         " waiting messages for ", absl::FormatDuration(timeout)));
      }
      sendable_.WaitUntil(&mutex_, deadline);
    }
  }
}

absl::StatusOr<bool> FramesConnection::TrySend(std::string* message) {
  if (static_cast<int64_t>(message->size()) > kMaxMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", message->size(), " bytes to ",
                                                   peer_, "; at most ", kMaxMessageBytes,
                                                   " are allowed"));
  }
  {
    MutexLock lock(&mutex_);
    if (closing_) return Closed();
    if (sending_over_) return PeerGone();
    if (!to_send_.HasRoom(static_cast<int64_t>(message->size()))) {
      sender_waits_ = true;
      return false;
    }
    to_send_.Push(std::move(*message));
    if (writing_) return true;
  }
  Advance();
  return true;
}

absl::StatusOr<std::string> FramesConnection::Receive(absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  std::string message;
  while (true) {
    DING_ASSIGN_OR_RETURN(const bool received, TryReceive(&message));
    if (received) return message;
    MutexLock lock(&mutex_);
    while (received_.messages.empty() && !closing_ && !receiving_over_) {
      if (deadline.Passed()) {
        return absl::DeadlineExceededError(
            absl::StrCat(peer_, " sent no message for ", absl::FormatDuration(timeout)));
      }
      receivable_.WaitUntil(&mutex_, deadline);
    }
  }
}

absl::StatusOr<bool> FramesConnection::TryReceive(std::string* message) {
  {
    MutexLock lock(&mutex_);
    if (closing_) return Closed();
    if (received_.messages.empty()) {
      if (receiving_over_) return PeerGone();
      receiver_waits_ = true;
      return false;
    }
    *message = received_.Pop();
    if (reading_ || read_ended_ || !ReadsOn()) return true;
  }
  Advance();
  return true;
}

void FramesConnection::SetReadyCallback(std::function<void()> ready) {
  MutexLock lock(&mutex_);
  ready_ = std::make_shared<const std::function<void()>>(std::move(ready));
}

void FramesConnection::SetMaxReceivedBytes(int64_t bytes) {
  {
    MutexLock lock(&mutex_);
    max_received_bytes_ = std::clamp<int64_t>(bytes, 0, kMaxMessageBytes);
    if (missing_ > 0) {
      const absl::Status status = CheckSize(part_.size() + missing_);
      if (!status.ok()) Disconnect(status);
    }
  }
  Advance();
}

void FramesConnection::NotifyAccepted() {
  {
    MutexLock lock(&mutex_);
    waits_ = false;
  }
  Advance();
}

void FramesConnection::BeginClose() {
  {
    MutexLock lock(&mutex_);
    if (closing_) return;
    closing_ = true;
    close_by_ = Deadline::After(kFlushTimeout);
    release_by_ = Deadline::After(kReleaseTimeout);
    received_.Clear();
    part_ = std::string();
    receivable_.SignalAll();
    sendable_.SignalAll();
  }
  Advance();
}

void FramesConnection::CloseWithin(absl::Duration flush) {
  BeginClose();
  MutexLock lock(&mutex_);
  const Deadline deadline = std::min(close_by_, Deadline::After(flush));
  while (!gone_ && !deadline.Passed()) state_.WaitUntil(&mutex_, deadline);
  if (!gone_) CancelOnce();
  // This wait is short: everything that was under way has been cancelled.
  while (!gone_ && !release_by_.Passed()) state_.WaitUntil(&mutex_, release_by_);
}

bool FramesConnection::released() const {
  MutexLock lock(&mutex_);
  return gone_;
}

absl::Status FramesConnection::WaitUntilOpen(absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  MutexLock lock(&mutex_);
  while (!opened_ && !gone_ && !deadline.Passed()) state_.WaitUntil(&mutex_, deadline);
  if (opened_) return absl::OkStatus();
  if (gone_) return PeerGone();
  return absl::DeadlineExceededError(
      absl::StrCat(peer_, " did not take the connection for ", absl::FormatDuration(timeout)));
}

bool FramesConnection::exhausted() const {
  MutexLock lock(&mutex_);
  return read_ended_ && received_.messages.empty();
}

void FramesConnection::Advance() {
  bool read = false, write = false, goodbye = false, release = false;
  Ready ready;
  {
    MutexLock lock(&mutex_);
    const bool room = closing_ || receiving_over_ || ReadsOn();
    if (room && !reading_ && !read_ended_) read = reading_ = true;
    if (sending_over_) to_send_.Clear();
    if (!writing_ && !write_ended_) {
      if (!to_send_.messages.empty()) {
        FillOutgoing();
        write = writing_ = true;
        sendable_.SignalAll();
        ready = WakeSender();
      } else if ((closing_ || sending_over_) && !read_ended_) {
        goodbye = writing_ = write_ended_ = true;
      }
    }
    if (read_ended_ && !writing_ && !released_) release = released_ = true;
  }
  // The flags already mark these operations as under way, so no other thread releases the stream
  // before they are started.
  if (write) StartWrite(&outgoing_);
  if (goodbye) StartGoodbye();
  if (read) StartRead(&incoming_);
  if (release) Release();
  Call(ready);
}

bool FramesConnection::ReadsOn() const {
  if (waits_) return received_.messages.empty() && part_.empty();
  const bool much = received_.messages.size() >= kMaxQueuedMessages ||
                    received_.bytes + static_cast<int64_t>(part_.size()) >= max_received_bytes_;
  return received_.messages.empty() || !much;
}

void FramesConnection::Opened() {
  MutexLock lock(&mutex_);
  opened_ = true;
  state_.SignalAll();
}

void FramesConnection::ReadDone(bool ok) {
  Ready ready;
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
      if (!status.ok()) Disconnect(status);
    }
    receivable_.SignalAll();
    ready = WakeReceiver();
  }
  Advance();
  Call(ready);
}

void FramesConnection::WriteDone(bool ok) {
  Ready ready;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    outgoing_ = link::Frames();
    if (!ok) {
      // Messages that the peer sent before it went may still arrive.
      write_ended_ = sending_over_ = true;
      sendable_.SignalAll();
      ready = ready_;
    }
  }
  Advance();
  Call(ready);
}

void FramesConnection::Released(absl::string_view reason) {
  Ready ready;
  {
    MutexLock lock(&mutex_);
    DING_CHECK(released_);
    if (reason_.empty()) reason_ = std::string(reason);
    gone_ = true;
    ready = ready_;
    state_.SignalAll();
  }
  Call(ready);
}

absl::Status FramesConnection::TakeFrames() {
  if (incoming_.message_size() > kMaxQueuedMessages) {
    return absl::InvalidArgumentError(absl::StrCat("frames of ", incoming_.message_size(),
                                                   " messages; at most ", kMaxQueuedMessages,
                                                   " are allowed"));
  }
  for (int i = 0; i < incoming_.message_size(); ++i) {
    const bool is_last = i + 1 == incoming_.message_size();
    DING_RETURN_IF_ERROR(
        TakePart(std::move(*incoming_.mutable_message(i)), is_last ? incoming_.rest() : 0));
  }
  return absl::OkStatus();
}

absl::Status FramesConnection::TakePart(std::string part, uint64_t rest) {
  const bool continues =
      missing_ == 0 || (part.size() <= missing_ && rest == missing_ - part.size());
  if (!continues || (part.empty() && (missing_ > 0 || rest > 0))) {
    return absl::InvalidArgumentError(absl::StrCat("a part of ", part.size(), " bytes with ", rest,
                                                   " to come, where ", missing_, " were missing"));
  }
  if (missing_ == 0) {
    DING_RETURN_IF_ERROR(CheckSize(part.size()));
    DING_RETURN_IF_ERROR(CheckSize(rest));
    DING_RETURN_IF_ERROR(CheckSize(part.size() + rest));
    part_ = std::move(part);
  } else {
    part_ += part;
  }
  missing_ = rest;
  if (missing_ == 0) received_.Push(std::exchange(part_, std::string()));
  return absl::OkStatus();
}

absl::Status FramesConnection::CheckSize(uint64_t bytes) const {
  if (bytes <= static_cast<uint64_t>(max_received_bytes_)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it sent a message of ", bytes, " bytes; at most ",
                                                 max_received_bytes_, " are allowed"));
}

void FramesConnection::Disconnect(const absl::Status& why) {
  reason_ = std::string(why.message());
  incoming_ = link::Frames();
  part_ = std::string();
  PeerClosed();
  CancelOnce();
}

FramesConnection::Ready FramesConnection::WakeReceiver() {
  const bool news = receiver_waits_ && (!received_.messages.empty() || receiving_over_);
  if (!news && !receiving_over_) return nullptr;
  receiver_waits_ = false;
  return ready_;
}

FramesConnection::Ready FramesConnection::WakeSender() {
  return std::exchange(sender_waits_, false) ? ready_ : nullptr;
}

void FramesConnection::FillOutgoing() {
  outgoing_.Clear();
  size_t room = kFramesBytes;
  do {
    const std::string& front = to_send_.messages.front();
    const size_t left = front.size() - front_sent_;
    const size_t size = std::min(left, room);
    if (size < front.size()) {
      outgoing_.add_message(front.substr(front_sent_, size));
      front_sent_ += size;
      if (size == left) to_send_.Pop();
    } else {
      outgoing_.add_message(to_send_.Pop());
    }
    room -= size;
    if (size < left) return outgoing_.set_rest(left - size);
    front_sent_ = 0;
  } while (!to_send_.messages.empty() && to_send_.messages.front().size() <= room);
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

void DeleteReleased::operator()(FramesConnection* connection) const {
  connection->Close();
  if (connection->released()) {
    delete connection;
    return;
  }
  ReportRefusal(absl::StrCat("gRPC keeps the connection of ", connection->peer(),
                             ": it could not start a thread, see the limit of processes"));
}

}  // namespace ding
