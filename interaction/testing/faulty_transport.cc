#include "ding_worker/interaction/testing/faulty_transport.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/transport/in_process_transport.h"

namespace ding {
namespace {

// How often a relay checks whether it must end.
constexpr absl::Duration kLook = absl::Milliseconds(10);
// How long it tries to pass on messages that were sent before the end.
constexpr absl::Duration kPatience = absl::Seconds(1);

}  // namespace

// The state that all connections of a transport share.
class FaultyTransport::Control {
 public:
  explicit Control(const Faults& faults) : faults_(faults) {}

  const Faults& faults() const { return faults_; }
  bool black_hole() const { return black_hole_.load(); }
  void set_black_hole(bool black_hole) { black_hole_ = black_hole; }
  // Connections made before the last cut are broken.
  int64_t cuts() const { return cuts_.load(); }
  void Cut() { ++cuts_; }
  // Returns the number of a direction. Every connection has two.
  uint64_t NextDirection() { return directions_++; }
  // Keeps a connection that was closed in a black hole alive, because its peer must not notice.
  void Keep(std::unique_ptr<Connection> connection) {
    MutexLock lock(&mutex_);
    kept_.push_back(std::move(connection));
  }

 private:
  const Faults faults_;
  std::atomic<bool> black_hole_{false};
  std::atomic<int64_t> cuts_{0};
  std::atomic<uint64_t> directions_{0};
  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> kept_ ABSL_GUARDED_BY(mutex_);
};

// The user's end of a connection within this process. Two relays tie its other end to `base`.
class FaultyTransport::FaultyConnection : public Connection {
 public:
  FaultyConnection(std::shared_ptr<Control> control, std::unique_ptr<Connection> base)
      : control_(std::move(control)),
        cuts_(control_->cuts()),
        base_(std::move(base)),
        peer_(base_->peer()) {
    InProcessTransport transport;
    const auto listener = transport.Listen(peer_);
    DING_CHECK(listener.ok()) << listener.status();
    user_ = transport.Connect(peer_, absl::ZeroDuration()).value();
    inner_ = (*listener)->Accept(absl::ZeroDuration()).value();
    const uint64_t there = control_->NextDirection();
    const uint64_t back = control_->NextDirection();
    relays_[0] = std::thread([this, there] { Relay(there, inner_.get(), base_.get()); });
    relays_[1] = std::thread([this, back] { Relay(back, base_.get(), inner_.get()); });
  }
  ~FaultyConnection() override {
    FaultyConnection::Close();
    for (std::thread& relay : relays_) relay.join();
    if (control_->black_hole()) control_->Keep(std::move(base_));
  }

  absl::Status Send(std::string message, absl::Duration timeout) override {
    return user_->Send(std::move(message), timeout);
  }
  absl::StatusOr<std::string> Receive(absl::Duration timeout) override {
    return user_->Receive(timeout);
  }
  absl::StatusOr<bool> TrySend(std::string* message) override { return user_->TrySend(message); }
  absl::StatusOr<bool> TryReceive(std::string* message) override {
    return user_->TryReceive(message);
  }
  void SetReadyCallback(std::function<void()> ready) override {
    user_->SetReadyCallback(std::move(ready));
  }
  void SetMaxReceivedBytes(int64_t bytes) override { user_->SetMaxReceivedBytes(bytes); }
  void Close() override {
    closed_ = true;
    user_->Close();
  }
  void BeginClose() override { Close(); }
  const std::string& peer() const override { return peer_; }
  absl::string_view identity() const override { return base_->identity(); }

 private:
  void Relay(uint64_t direction, Connection* from, Connection* to) {
    Rng rng(control_->faults().seed, "faults", direction);
    bool lost_to = false;
    while (control_->cuts() == cuts_ && !(closed_ && control_->black_hole())) {
      const absl::StatusOr<std::string> message = from->Receive(kLook);
      if (message.ok()) {
        HoldBack(&rng);
        lost_to = !control_->black_hole() && !Pass(*message, to);
      } else if (!absl::IsDeadlineExceeded(message.status())) {
        if (!control_->black_hole()) break;
        absl::SleepFor(kLook);
      }
      if (!lost_to) continue;
      // The user has closed, so nobody receives what the peer still sends.
      if (closed_ && from == inner_.get()) break;
      // The other relay closes both ends when it has passed on what was sent before.
      if (control_->cuts() == cuts_) return;
    }
    if (control_->cuts() == cuts_ && !lost_to && control_->black_hole()) return;
    // When one end closes, the other one closes as well.
    to->Close();
    from->Close();
  }

  // Waits for the delay of the next message, but not beyond a cut.
  void HoldBack(Rng* rng) {
    const Faults& faults = control_->faults();
    const bool late = rng->Uniform() < faults.delay;
    const Deadline due = Deadline::After(rng->Uniform() * faults.max_delay);
    while (late && control_->cuts() == cuts_ && !due.Passed()) {
      absl::SleepFor(std::min(kLook, due.Left()));
    }
  }

  // Sends the message to `to`, and waits for room. Returns false if `to` is gone, at a cut, or if
  // the user has closed and `to` accepts nothing for kPatience.
  bool Pass(const std::string& message, Connection* to) {
    absl::Duration waited;
    while (control_->cuts() == cuts_ && waited < kPatience) {
      const absl::Status sent = to->Send(message, kLook);
      if (!absl::IsDeadlineExceeded(sent)) return sent.ok();
      if (closed_) waited += kLook;
    }
    return false;
  }

  const std::shared_ptr<Control> control_;
  const int64_t cuts_;
  std::unique_ptr<Connection> base_;
  const std::string peer_;
  std::atomic<bool> closed_{false};  // by the user
  std::unique_ptr<Connection> user_;
  std::unique_ptr<Connection> inner_;
  std::thread relays_[2];
};

class FaultyTransport::FaultyListener : public Listener {
 public:
  FaultyListener(std::shared_ptr<Control> control, std::unique_ptr<Listener> base)
      : control_(std::move(control)), base_(std::move(base)) {}

  absl::StatusOr<std::unique_ptr<Connection>> Accept(absl::Duration timeout) override {
    DING_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, base_->Accept(timeout));
    return std::make_unique<FaultyConnection>(control_, std::move(connection));
  }
  void SetReadyCallback(std::function<void()> ready) override {
    base_->SetReadyCallback(std::move(ready));
  }
  const std::string& address() const override { return base_->address(); }
  void Close() override { base_->Close(); }

 private:
  const std::shared_ptr<Control> control_;
  const std::unique_ptr<Listener> base_;
};

FaultyTransport::FaultyTransport(Transport* base, const Faults& faults)
    : base_(base), control_(std::make_shared<Control>(faults)) {}
FaultyTransport::~FaultyTransport() = default;

void FaultyTransport::set_black_hole(bool black_hole) { control_->set_black_hole(black_hole); }

void FaultyTransport::Cut() { control_->Cut(); }

absl::StatusOr<std::unique_ptr<Listener>> FaultyTransport::Listen(const std::string& address) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, base_->Listen(address));
  return std::make_unique<FaultyListener>(control_, std::move(listener));
}

absl::StatusOr<std::unique_ptr<Connection>> FaultyTransport::Connect(const std::string& address,
                                                                     absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  while (control_->black_hole()) {
    if (deadline.Passed()) {
      return absl::DeadlineExceededError(absl::StrCat("no message arrives at '", address, "'"));
    }
    absl::SleepFor(kLook);
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                        base_->Connect(address, deadline.Left()));
  return std::make_unique<FaultyConnection>(control_, std::move(connection));
}

}  // namespace ding
