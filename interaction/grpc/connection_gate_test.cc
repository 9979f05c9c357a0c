#include "ding_worker/interaction/grpc/connection_gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "ding_worker/interaction/grpc/taken_connections.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;

// Far longer than any operation here takes: one that waits so long has hung.
constexpr absl::Duration kLong = absl::Seconds(60);

// A client's socket.
class Client {
 public:
  Client(absl::string_view from, int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own = AddressOf(from, 0);
    const sockaddr_in to = AddressOf("127.0.0.1", port);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    socklen_t size = sizeof(own);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &size), 0);
    name_ = absl::StrCat(from, ":", ntohs(own.sin_port));
  }
  Client(Client&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), name_(std::move(other.name_)) {}
  ~Client() {
    if (fd_ >= 0) close(fd_);
  }

  const std::string& name() const { return name_; }
  void Speak() const { EXPECT_EQ(send(fd_, "x", 1, MSG_NOSIGNAL), 1); }
  // Sends all bytes, unless the connection is cut meanwhile.
  void Send(absl::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  bool IsClosed(absl::Duration within = absl::ZeroDuration()) const {
    pollfd polled = {fd_, POLLIN, 0};
    return poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(within))) == 1;
  }

 private:
  static sockaddr_in AddressOf(absl::string_view host, int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(inet_pton(AF_INET, std::string(host).c_str(), &address.sin_addr), 1);
    return address;
  }

  int fd_;
  std::string name_;
};

class ConnectionGateTest : public testing::Test {
 protected:
  ~ConnectionGateTest() override {
    gate_.reset();
    for (const int fd : taken_) close(fd);
  }

  void Listen(const ConnectionBounds& bounds) {
    LinkAddress address;
    address.host = "127.0.0.1";
    gate_ = ConnectionGate::Listen(address, bounds).value();
    ConnectionGate::Backend backend;
    backend.take = [this](int fd) {
      MutexLock lock(&mutex_);
      taken_.push_back(fd);
    };
    backend.begun_streams = [this] {
      MutexLock lock(&mutex_);
      return begun_;
    };
    backend.report = [this](absl::string_view what) {
      MutexLock lock(&mutex_);
      absl::StrAppend(&reports_, what, "\n");
    };
    ASSERT_THAT(gate_->Start(std::move(backend)), IsOk());
  }
  Client Connect(absl::string_view from = "127.0.0.1") { return {from, gate_->port()}; }
  // Returns a client whose connection has been handed over.
  Client Speaker(absl::string_view from = "127.0.0.1") {
    const size_t before = taken();
    Client client = Connect(from);
    client.Speak();
    while (taken() == before) absl::SleepFor(absl::Milliseconds(1));
    return client;
  }
  size_t taken() {
    MutexLock lock(&mutex_);
    return taken_.size();
  }
  // Reads like a server that takes all bytes.
  void ReadAll() {
    MutexLock lock(&mutex_);
    for (const int fd : taken_) {
      char bytes[4096];
      while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
      }
    }
  }
  // Closes connections like a server that finds them cut.
  void CloseThoseThatAreCut() {
    MutexLock lock(&mutex_);
    for (int& fd : taken_) {
      char byte[2];
      if (fd >= 0 && recv(fd, byte, 2, MSG_PEEK | MSG_DONTWAIT) <= 0) close(std::exchange(fd, -1));
    }
  }
  void WaitForReport(const std::string& what) {
    while (!HasReport(what)) absl::SleepFor(absl::Milliseconds(1));
  }
  bool HasReport(const std::string& what) {
    MutexLock lock(&mutex_);
    return absl::StrContains(reports_, what);
  }

  Mutex mutex_;
  std::vector<int> taken_ ABSL_GUARDED_BY(mutex_);
  std::vector<BegunStreams> begun_ ABSL_GUARDED_BY(mutex_);
  std::string reports_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ConnectionGate> gate_;
};

TEST_F(ConnectionGateTest, TheOldestSilentConnectionGoesFirst) {
  Listen({2, 2, 2});
  const Client first = Connect(), second = Connect(), third = Connect();
  EXPECT_TRUE(first.IsClosed(kLong));
  WaitForReport(absl::StrCat(first.name(), " was refused: too many"));
  // A connection that speaks is handed over before it is due to be closed.
  third.Speak();
  while (taken() == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(third.IsClosed());
}

TEST_F(ConnectionGateTest, SilentConnectionsAreClosed) {
  Listen({2, 2, 2});
  const Client client = Connect();
  EXPECT_TRUE(client.IsClosed(kLong));
  WaitForReport(absl::StrCat(client.name(), " was refused: it says nothing"));
}

TEST_F(ConnectionGateTest, AddressWithManyConnectionsGivesWayToOthers) {
  Listen({4, 3, 4});
  const Client silent = Connect("127.0.0.2");
  const Client unproven = Speaker("127.0.0.2");
  std::vector<Client> crowd;
  for (int i = 0; i < 10; ++i) crowd.push_back(Connect());
  // The last three connections are within the bound.
  for (size_t i = 0; i < 7; ++i) EXPECT_TRUE(crowd[i].IsClosed(kLong)) << i;
  EXPECT_FALSE(silent.IsClosed());
  const Client others[] = {Speaker(), Speaker()};
  const Client newcomer = Connect("127.0.0.3");
  newcomer.Speak();
  while (!others[0].IsClosed() && !others[1].IsClosed()) absl::SleepFor(absl::Milliseconds(1));
  CloseThoseThatAreCut();
  while (taken() < 4) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(unproven.IsClosed());
  EXPECT_FALSE(newcomer.IsClosed());
}

TEST_F(ConnectionGateTest, UnprovenConnectionThatSendsTooMuchIsCut) {
  Listen({2, 2, 2});
  const Client client = Speaker();
  const Client proven = Speaker();
  ASSERT_THAT(gate_->LetIn(proven.name(), false), IsOk());
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) ReadAll();
  });
  const std::string much(128 << 10, 'x');
  proven.Send(much);
  client.Send(much);
  EXPECT_TRUE(client.IsClosed(kLong));
  done = true;
  reader.join();
  WaitForReport("says too much before a call is let in");
  EXPECT_FALSE(proven.IsClosed());
}

TEST_F(ConnectionGateTest, FloodingAddressWaitsBehindOthers) {
  constexpr size_t kMany = 30;
  Listen({2 * kMany, 2 * kMany, 2});
  const Client flooder = Speaker();
  while (gate_->CountCall(flooder.name())) {
  }
  std::vector<Client> more;
  for (size_t i = 0; i < kMany; ++i) {
    more.push_back(Connect());
    more.back().Speak();
  }
  const Client other = Connect("127.0.0.2");
  other.Speak();
  while (!gate_->CountCall(other.name())) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_LT(taken(), kMany)
      << "connections of another address must not wait for those of the flooder";
  const size_t now = taken();
  while (taken() == now) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(ConnectionGateTest, NewListenerTakesTheAddressWhileProvenConnectionsStay) {
  Listen({2, 2, 2});
  const Client silent = Connect();
  const Client unproven = Speaker();
  const Client proven = Speaker();
  EXPECT_THAT(gate_->LetIn(proven.name(), false), IsOk());
  gate_->StopListening();
  LinkAddress address;
  address.host = "127.0.0.1";
  address.port = gate_->port();
  EXPECT_THAT(ConnectionGate::Listen(address, {2, 2, 2}), IsOk());
  EXPECT_TRUE(silent.IsClosed(kLong));
  EXPECT_TRUE(unproven.IsClosed(kLong));
  EXPECT_FALSE(proven.IsClosed());
}

TEST_F(ConnectionGateTest, ListenFailsOnAnAddressThatIsTakenOrForeign) {
  Listen({2, 2, 2});
  LinkAddress address;
  address.host = "127.0.0.1";
  address.port = gate_->port();
  EXPECT_THAT(ConnectionGate::Listen(address, {2, 2, 2}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("Address already in use")));
  address.host = "192.0.2.1";
  EXPECT_THAT(ConnectionGate::Listen(address, {2, 2, 2}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot listen on 192.0.2.1")));
}

}  // namespace
}  // namespace ding
