#include "ding_worker/interaction/transport/in_process_transport.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// The number of connections that may wait to be accepted. When so many wait, Connect() waits too.
constexpr size_t kMaxPending = 64;

using Ready = std::shared_ptr<const std::function<void()>>;

void Call(const Ready& ready) {
  if (ready == nullptr || *ready == nullptr) return;
  CallUserWhoMustNotThrow("the ready callback of a connection", *ready);
}

// One direction of a connection. It lives until both ends are gone. It calls the ready callbacks
// without holding its lock.
class Pipe {
 public:
  absl::Status Send(std::string message, absl::Duration timeout, const std::string& peer) {
    const Deadline deadline = Deadline::After(timeout);
    while (true) {
      DING_ASSIGN_OR_RETURN(const bool sent, TrySend(&message, peer));
      if (sent) return absl::OkStatus();
      MutexLock lock(&mutex_);
      while (is_open() && !HasRoom(message)) {
        if (deadline.Passed()) {
          return absl::DeadlineExceededError(absl::StrCat(peer, " received none of ",
                                                          messages_.size(), " messages in ",
                                                          absl::FormatDuration(timeout)));
        }
        room_.WaitUntil(&mutex_, deadline);
      }
    }
  }

  absl::StatusOr<bool> TrySend(std::string* message, const std::string& peer) {
    if (static_cast<int64_t>(message->size()) > kMaxMessageBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a message of ", message->size(), " bytes to ",
                                                     peer, ", expected at most ",
                                                     kMaxMessageBytes));
    }
    Ready ready;
    {
      MutexLock lock(&mutex_);
      if (sender_closed_) return Closed(peer);
      if (receiver_closed_ || too_large_ > 0) return PeerClosed(peer);
      const auto bytes = static_cast<int64_t>(message->size());
      if (bytes <= max_received_bytes_) {
        if (!HasRoom(*message)) {
          sender_waits_ = true;
          return false;
        }
        bytes_ += bytes;
        messages_.push_back(std::move(*message));
      } else {
        too_large_ = bytes;
        WakeAll();
      }
      arrived_.Signal();
      if (std::exchange(receiver_waits_, false)) ready = receiver_ready_;
    }
    Call(ready);
    return true;
  }

  absl::StatusOr<std::string> Receive(absl::Duration timeout, const std::string& peer) {
    const Deadline deadline = Deadline::After(timeout);
    std::string message;
    while (true) {
      DING_ASSIGN_OR_RETURN(const bool received, TryReceive(&message, peer));
      if (received) return message;
      MutexLock lock(&mutex_);
      while (is_open() && messages_.empty()) {
        if (deadline.Passed()) {
          return absl::DeadlineExceededError(
              absl::StrCat("no message from ", peer, " in ", absl::FormatDuration(timeout)));
        }
        arrived_.WaitUntil(&mutex_, deadline);
      }
    }
  }

  absl::StatusOr<bool> TryReceive(std::string* message, const std::string& peer) {
    Ready ready;
    {
      MutexLock lock(&mutex_);
      if (receiver_closed_) return Closed(peer);
      if (messages_.empty()) {
        if (too_large_ > 0) {
          return absl::UnavailableError(absl::StrCat(peer, " sent a message of ", too_large_,
                                                     " bytes, expected at most ",
                                                     max_received_bytes_));
        }
        if (sender_closed_) return PeerClosed(peer);
        receiver_waits_ = true;
        return false;
      }
      *message = std::move(messages_.front());
      messages_.pop_front();
      bytes_ -= static_cast<int64_t>(message->size());
      room_.Signal();
      if (std::exchange(sender_waits_, false)) ready = sender_ready_;
    }
    Call(ready);
    return true;
  }

  void SetSenderReady(Ready ready) {
    MutexLock lock(&mutex_);
    sender_ready_ = std::move(ready);
  }
  void SetReceiverReady(Ready ready) {
    MutexLock lock(&mutex_);
    receiver_ready_ = std::move(ready);
  }
  void SetMaxReceivedBytes(int64_t bytes) {
    MutexLock lock(&mutex_);
    max_received_bytes_ = std::clamp<int64_t>(bytes, 0, kMaxMessageBytes);
  }

  void CloseSender() {
    Ready ready;
    {
      MutexLock lock(&mutex_);
      if (std::exchange(sender_closed_, true)) return;
      ready = receiver_ready_;
      WakeAll();
    }
    Call(ready);
  }
  void CloseReceiver() {
    Ready ready;
    {
      MutexLock lock(&mutex_);
      if (receiver_closed_) return;
      receiver_closed_ = true;
      messages_.clear();
      bytes_ = 0;
      WakeAll();
      ready = sender_ready_;
    }
    Call(ready);
  }

 private:
  static absl::Status Closed(const std::string& peer) {
    return absl::CancelledError(absl::StrCat("the connection to ", peer, " was closed here"));
  }
  static absl::Status PeerClosed(const std::string& peer) {
    return absl::UnavailableError(absl::StrCat(peer, " closed the connection"));
  }
  bool is_open() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !sender_closed_ && !receiver_closed_ && too_large_ == 0;
  }
  bool HasRoom(const std::string& message) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return messages_.empty() || (messages_.size() < kMaxQueuedMessages &&
                                 bytes_ + static_cast<int64_t>(message.size()) <= kMaxQueuedBytes);
  }
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    arrived_.SignalAll();
    room_.SignalAll();
  }

  Mutex mutex_;
  CondVar arrived_;
  CondVar room_;
  std::deque<std::string> messages_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t max_received_bytes_ ABSL_GUARDED_BY(mutex_) = kMaxMessageBytes;
  // The size of the message that was too large and broke the connection; 0: there was none.
  int64_t too_large_ ABSL_GUARDED_BY(mutex_) = 0;
  bool sender_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool receiver_closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether TrySend() or TryReceive() returned false, so that the callback of that side is due.
  bool sender_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool receiver_waits_ ABSL_GUARDED_BY(mutex_) = false;
  Ready sender_ready_ ABSL_GUARDED_BY(mutex_);
  Ready receiver_ready_ ABSL_GUARDED_BY(mutex_);
};

class InProcessConnection : public Connection {
 public:
  InProcessConnection(std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in, std::string peer)
      : out_(std::move(out)), in_(std::move(in)), peer_(std::move(peer)) {}
  ~InProcessConnection() override { InProcessConnection::Close(); }

  absl::Status Send(std::string message, absl::Duration timeout) override {
    return out_->Send(std::move(message), timeout, peer_);
  }
  absl::StatusOr<std::string> Receive(absl::Duration timeout) override {
    return in_->Receive(timeout, peer_);
  }
  absl::StatusOr<bool> TrySend(std::string* message) override {
    return out_->TrySend(message, peer_);
  }
  absl::StatusOr<bool> TryReceive(std::string* message) override {
    return in_->TryReceive(message, peer_);
  }
  void SetReadyCallback(std::function<void()> ready) override {
    const auto shared = std::make_shared<const std::function<void()>>(std::move(ready));
    out_->SetSenderReady(shared);
    in_->SetReceiverReady(shared);
  }
  void SetMaxReceivedBytes(int64_t bytes) override { in_->SetMaxReceivedBytes(bytes); }
  void Close() override {
    out_->CloseSender();
    in_->CloseReceiver();
  }
  void BeginClose() override { Close(); }
  const std::string& peer() const override { return peer_; }

 private:
  const std::shared_ptr<Pipe> out_;
  const std::shared_ptr<Pipe> in_;
  const std::string peer_;
};

// The state of a listener. The mutex of its Addresses guards it.
struct Place {
  std::string address;
  bool open = true;
  std::deque<std::unique_ptr<Connection>> pending;  // connections to be accepted
  std::function<void()> ready;  // called when a connection is added; may be empty
};

}  // namespace

class InProcessTransport::Addresses {
 public:
  absl::StatusOr<std::shared_ptr<Place>> Open(const std::string& address) {
    const auto place = std::make_shared<Place>();
    place->address = address;
    MutexLock lock(&mutex_);
    if (!places_.emplace(address, place).second) {
      return absl::AlreadyExistsError(absl::StrCat("a listener already exists at '", address, "'"));
    }
    changed_.SignalAll();
    return place;
  }

  void Close(Place* place) {
    MutexLock lock(&mutex_);
    if (!place->open) return;
    place->open = false;
    place->ready = nullptr;
    place->pending.clear();
    places_.erase(place->address);
    changed_.SignalAll();
  }

  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                      absl::Duration timeout) {
    const Deadline deadline = Deadline::After(timeout);
    MutexLock lock(&mutex_);
    while (true) {
      const auto found = places_.find(address);
      const bool listens = found != places_.end();
      if (listens && found->second->pending.size() < kMaxPending) {
        const auto there = std::make_shared<Pipe>();
        const auto back = std::make_shared<Pipe>();
        found->second->pending.push_back(std::make_unique<InProcessConnection>(
            back, there, absl::StrCat("caller ", ++callers_, " of '", address, "'")));
        if (found->second->ready != nullptr) {
          CallUserWhoMustNotThrow("the ready callback of a listener", found->second->ready);
        }
        changed_.SignalAll();
        return std::make_unique<InProcessConnection>(there, back, address);
      }
      if (deadline.Passed()) {
        return absl::DeadlineExceededError(absl::StrCat("no peer ", listens ? "accepts" : "listens",
                                                        " at '", address, "' in ",
                                                        absl::FormatDuration(timeout)));
      }
      changed_.WaitUntil(&mutex_, deadline);
    }
  }

  absl::StatusOr<std::unique_ptr<Connection>> Accept(Place* place, absl::Duration timeout) {
    const Deadline deadline = Deadline::After(timeout);
    MutexLock lock(&mutex_);
    while (place->open && place->pending.empty()) {
      if (deadline.Passed()) {
        return absl::DeadlineExceededError(absl::StrCat("no peer connected to '", place->address,
                                                        "' in ", absl::FormatDuration(timeout)));
      }
      changed_.WaitUntil(&mutex_, deadline);
    }
    if (!place->open) {
      return absl::CancelledError(
          absl::StrCat("the listener at '", place->address, "' was closed"));
    }
    std::unique_ptr<Connection> connection = std::move(place->pending.front());
    place->pending.pop_front();
    changed_.SignalAll();
    return connection;
  }

  void SetReady(Place* place, std::function<void()> ready) {
    MutexLock lock(&mutex_);
    place->ready = std::move(ready);
  }

  // Owns a Place that Open() returned, and closes it.
  class InProcessListener;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::shared_ptr<Place>> places_ ABSL_GUARDED_BY(mutex_);
  int64_t callers_ ABSL_GUARDED_BY(mutex_) = 0;
};

class InProcessTransport::Addresses::InProcessListener : public Listener {
 public:
  InProcessListener(std::shared_ptr<Addresses> addresses, std::shared_ptr<Place> place)
      : addresses_(std::move(addresses)), place_(std::move(place)) {}
  ~InProcessListener() override { InProcessListener::Close(); }

  absl::StatusOr<std::unique_ptr<Connection>> Accept(absl::Duration timeout) override {
    return addresses_->Accept(place_.get(), timeout);
  }
  void SetReadyCallback(std::function<void()> ready) override {
    addresses_->SetReady(place_.get(), std::move(ready));
  }
  const std::string& address() const override { return place_->address; }
  void Close() override { addresses_->Close(place_.get()); }

 private:
  const std::shared_ptr<Addresses> addresses_;
  const std::shared_ptr<Place> place_;
};

InProcessTransport::InProcessTransport() : addresses_(std::make_shared<Addresses>()) {}
InProcessTransport::~InProcessTransport() = default;

absl::StatusOr<std::unique_ptr<Listener>> InProcessTransport::Listen(const std::string& address) {
  if (address.empty()) {
    return absl::InvalidArgumentError("the address to listen at is empty, expected a name");
  }
  DING_ASSIGN_OR_RETURN(std::shared_ptr<Place> place, addresses_->Open(address));
  return std::make_unique<Addresses::InProcessListener>(addresses_, std::move(place));
}

absl::StatusOr<std::unique_ptr<Connection>> InProcessTransport::Connect(const std::string& address,
                                                                        absl::Duration timeout) {
  if (address.empty()) {
    return absl::InvalidArgumentError("the address to connect to is empty, expected a name");
  }
  return addresses_->Connect(address, timeout);
}

}  // namespace ding
