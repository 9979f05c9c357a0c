#include "ding_worker/interaction/in_process_transport.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Connections that wait to be accepted; whoever connects then waits.
constexpr size_t kMaxPending = 64;

// One direction of a connection. Lives until both ends are gone.
class Pipe {
 public:
  absl::Status Send(std::string message, absl::Duration timeout, const std::string& peer) {
    if (static_cast<int64_t>(message.size()) > kMaxMessageBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(), " bytes to ",
                                                     peer, ", expected at most ",
                                                     kMaxMessageBytes));
    }
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (true) {
      if (sender_closed_) return Closed(peer);
      if (receiver_closed_) return PeerClosed(peer);
      if (messages_.size() < kMaxQueuedMessages) break;
      if (absl::Now() >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat(peer, " took none of ", messages_.size(),
                                                        " messages in ",
                                                        absl::FormatDuration(timeout)));
      }
      room_.WaitUntil(&mutex_, deadline);
    }
    messages_.push_back(std::move(message));
    arrived_.Signal();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Receive(absl::Duration timeout, const std::string& peer) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (true) {
      if (receiver_closed_) return Closed(peer);
      if (!messages_.empty()) break;
      if (sender_closed_) return PeerClosed(peer);
      if (absl::Now() >= deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("no message from ", peer, " in ", absl::FormatDuration(timeout)));
      }
      arrived_.WaitUntil(&mutex_, deadline);
    }
    std::string message = std::move(messages_.front());
    messages_.pop_front();
    room_.Signal();
    return message;
  }

  void CloseSender() {
    MutexLock lock(&mutex_);
    sender_closed_ = true;
    WakeAll();
  }
  void CloseReceiver() {
    MutexLock lock(&mutex_);
    receiver_closed_ = true;
    messages_.clear();
    WakeAll();
  }

 private:
  static absl::Status Closed(const std::string& peer) {
    return absl::CancelledError(absl::StrCat("the connection to ", peer, " was closed here"));
  }
  static absl::Status PeerClosed(const std::string& peer) {
    return absl::UnavailableError(absl::StrCat(peer, " closed the connection"));
  }
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    arrived_.SignalAll();
    room_.SignalAll();
  }

  Mutex mutex_;
  CondVar arrived_;
  CondVar room_;
  std::deque<std::string> messages_ ABSL_GUARDED_BY(mutex_);
  bool sender_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool receiver_closed_ ABSL_GUARDED_BY(mutex_) = false;
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
  void Close() override {
    out_->CloseSender();
    in_->CloseReceiver();
  }
  const std::string& peer() const override { return peer_; }

 private:
  const std::shared_ptr<Pipe> out_;
  const std::shared_ptr<Pipe> in_;
  const std::string peer_;
};

// Where somebody listens. Guarded by the mutex of its Addresses.
struct Place {
  std::string address;
  bool open = true;
  std::deque<std::unique_ptr<Connection>> pending;  // to be accepted
};

}  // namespace

class InProcessTransport::Addresses {
 public:
  absl::StatusOr<std::shared_ptr<Place>> Open(const std::string& address) {
    const auto place = std::make_shared<Place>();
    place->address = address;
    MutexLock lock(&mutex_);
    if (!places_.emplace(address, place).second) {
      return absl::AlreadyExistsError(absl::StrCat("somebody listens at '", address, "'"));
    }
    changed_.SignalAll();
    return place;
  }

  void Close(Place* place) {
    MutexLock lock(&mutex_);
    if (!place->open) return;
    place->open = false;
    place->pending.clear();
    places_.erase(place->address);
    changed_.SignalAll();
  }

  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                      absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (true) {
      const auto found = places_.find(address);
      const bool listens = found != places_.end();
      if (listens && found->second->pending.size() < kMaxPending) {
        const auto there = std::make_shared<Pipe>();
        const auto back = std::make_shared<Pipe>();
        found->second->pending.push_back(std::make_unique<InProcessConnection>(
            back, there, absl::StrCat("caller ", ++callers_, " of '", address, "'")));
        changed_.SignalAll();
        return std::make_unique<InProcessConnection>(there, back, address);
      }
      if (absl::Now() >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat("nobody ", listens ? "accepts" : "listens",
                                                        " at '", address, "' in ",
                                                        absl::FormatDuration(timeout)));
      }
      changed_.WaitUntil(&mutex_, deadline);
    }
  }

  absl::StatusOr<std::unique_ptr<Connection>> Accept(Place* place, absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (place->open && place->pending.empty()) {
      if (absl::Now() >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat("nobody connected to '", place->address,
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

  // Owns what Open() returned, and closes it.
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
