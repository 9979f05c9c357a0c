#include "ding_worker/interaction/grpc/grpc_transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;

// Longer than anything here takes; a test that reaches it fails.
constexpr absl::Duration kLong = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(50);

class GrpcTransportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto listener = transport_.Listen("127.0.0.1:0");
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  struct Pair {
    std::unique_ptr<Connection> client;
    std::unique_ptr<Connection> server;
  };
  Pair Connected() {
    Pair pair;
    auto client = transport_.Connect(listener_->address(), kLong);
    EXPECT_TRUE(client.ok()) << client.status();
    auto server = listener_->Accept(kLong);
    EXPECT_TRUE(server.ok()) << server.status();
    return {*std::move(client), *std::move(server)};
  }

  GrpcTransport transport_;
  std::unique_ptr<Listener> listener_;
};

// Sends until nobody takes more; returns how many were sent.
int Fill(Connection* connection, const std::string& message) {
  int sent = 0;
  absl::Status status;
  while ((status = connection->Send(message, absl::Milliseconds(200))).ok()) ++sent;
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  return sent;
}

TEST_F(GrpcTransportTest, KeepsTheOrderInBothDirections) {
  const Pair pair = Connected();
  constexpr int kMessages = 20000;
  const auto send_all = [](Connection* connection) {
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(connection->Send(absl::StrCat("message ", i), kLong).ok());
    }
  };
  const auto receive_all = [](Connection* connection) {
    for (int i = 0; i < kMessages; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, connection->Receive(kLong));
      ASSERT_EQ(message, absl::StrCat("message ", i));
    }
  };
  std::thread threads[] = {
      std::thread(send_all, pair.client.get()), std::thread(send_all, pair.server.get()),
      std::thread(receive_all, pair.client.get()), std::thread(receive_all, pair.server.get())};
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GrpcTransportTest, CarriesEmptyAndBinaryMessages) {
  const Pair pair = Connected();
  const std::string messages[] = {"", std::string("\0\xff\n", 3), "", "end"};
  for (const std::string& message : messages) {
    ASSERT_TRUE(pair.client->Send(message, kLong).ok());
  }
  for (const std::string& message : messages) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string received, pair.server->Receive(kLong));
    EXPECT_EQ(received, message);
  }
}

TEST_F(GrpcTransportTest, NamesThePeer) {
  const Pair pair = Connected();
  EXPECT_EQ(pair.client->peer(), listener_->address());
  EXPECT_TRUE(absl::StartsWith(pair.server->peer(), "127.0.0.1:")) << pair.server->peer();
  EXPECT_NE(pair.server->peer(), pair.client->peer());
}

TEST_F(GrpcTransportTest, WaitsNoLongerThanAsked) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(listener_->Accept(kShort).status()));
  const Pair pair = Connected();
  EXPECT_TRUE(absl::IsDeadlineExceeded(pair.client->Receive(kShort).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(pair.server->Receive(absl::ZeroDuration()).status()));
}

TEST_F(GrpcTransportTest, CloseWakesWhoWaits) {
  const Pair pair = Connected();
  std::thread receiver([&] {
    absl::Status status;
    while (status.ok()) status = pair.client->Receive(absl::InfiniteDuration()).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  });
  std::thread accepter([&] {
    EXPECT_TRUE(absl::IsCancelled(listener_->Accept(absl::InfiniteDuration()).status()));
  });
  std::thread sender([&] {
    absl::Status status;
    while (status.ok()) status = pair.server->Send(std::string(1 << 20, 'x'), kLong);
    EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status)) << status;
  });
  absl::SleepFor(kShort);  // Not needed to pass: lets them wait first.
  pair.client->Close();
  listener_->Close();
  pair.server->Close();
  receiver.join();
  accepter.join();
  sender.join();
  EXPECT_TRUE(absl::IsCancelled(pair.client->Send("x", kLong)));
  EXPECT_TRUE(absl::IsCancelled(pair.server->Receive(kLong).status()));
  pair.client->Close();
  listener_->Close();
}

TEST_F(GrpcTransportTest, WhatWasSentBeforeCloseArrives) {
  for (const bool client_closes : {true, false}) {
    const Pair pair = Connected();
    Connection* const from = (client_closes ? pair.client : pair.server).get();
    Connection* const to = (client_closes ? pair.server : pair.client).get();
    constexpr int kMessages = 100;
    const std::string tail(100000, 'x');
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(from->Send(absl::StrCat(i, tail), kLong).ok());
    }
    // Also while the other side is sending.
    ASSERT_TRUE(to->Send("never read", kLong).ok());
    from->Close();
    for (int i = 0; i < kMessages; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, to->Receive(kLong));
      ASSERT_EQ(message, absl::StrCat(i, tail));
    }
    const absl::Status end = to->Receive(kLong).status();
    EXPECT_TRUE(absl::IsUnavailable(end)) << end;
    EXPECT_THAT(std::string(end.message()), HasSubstr(to->peer()));
    EXPECT_TRUE(absl::IsUnavailable(to->Send("x", kLong)));
  }
}

TEST_F(GrpcTransportTest, APeerThatTakesNothingIsNotWaitedForAtTheEnd) {
  for (const bool client_closes : {true, false}) {
    const Pair pair = Connected();
    Connection* const from = (client_closes ? pair.client : pair.server).get();
    Fill(from, std::string(1 << 20, 'x'));
    from->Close();
  }
}

TEST_F(GrpcTransportTest, ASlowReceiverMakesTheSenderWait) {
  const Pair pair = Connected();
  const std::string large(64 << 10, 'x');
  const int sent = Fill(pair.client.get(), large);
  EXPECT_GE(sent, kMaxQueuedMessages);
  // Two queues, two messages' worth of a queue under way, and what gRPC and the kernel hold.
  EXPECT_LE(sent, 8 * kMaxQueuedMessages);
  // The other direction goes on.
  ASSERT_TRUE(pair.server->Send("still here", kLong).ok());
  DING_ASSERT_OK_AND_ASSIGN(const std::string message, pair.client->Receive(kLong));
  EXPECT_EQ(message, "still here");
  for (int i = 0; i < sent; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string received, pair.server->Receive(kLong));
    ASSERT_EQ(received.size(), large.size());
  }
  EXPECT_TRUE(pair.client->Send("room again", kLong).ok());
  DING_ASSERT_OK_AND_ASSIGN(const std::string last, pair.server->Receive(kLong));
  EXPECT_EQ(last, "room again");
}

TEST_F(GrpcTransportTest, ALargerMessageIsRefusedAndTheConnectionGoesOn) {
  const Pair pair = Connected();
  const std::string largest(kMaxMessageBytes, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(pair.client->Send(largest + "x", kLong)));
  ASSERT_TRUE(pair.client->Send(largest, kLong).ok());
  ASSERT_TRUE(pair.client->Send("next", kLong).ok());
  DING_ASSERT_OK_AND_ASSIGN(const std::string first, pair.server->Receive(kLong));
  EXPECT_EQ(first.size(), largest.size());
  DING_ASSERT_OK_AND_ASSIGN(const std::string second, pair.server->Receive(kLong));
  EXPECT_EQ(second, "next");
}

TEST_F(GrpcTransportTest, OneListenerPerAddress) {
  const std::string address = listener_->address();
  const absl::Status second = transport_.Listen(address).status();
  EXPECT_TRUE(absl::IsAlreadyExists(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr(address));

  // Free again once the listener is closed, while an accepted connection goes on.
  const Pair pair = Connected();
  listener_->Close();
  DING_ASSERT_OK_AND_ASSIGN(const auto successor, transport_.Listen(address));
  EXPECT_EQ(successor->address(), address);
  ASSERT_TRUE(pair.client->Send("x", kLong).ok());
  EXPECT_TRUE(pair.server->Receive(kLong).ok());
  DING_ASSERT_OK_AND_ASSIGN(const auto client, transport_.Connect(address, kLong));
  EXPECT_TRUE(successor->Accept(kLong).ok());
}

TEST_F(GrpcTransportTest, AcceptedConnectionsOutliveTheListener) {
  const Pair pair = Connected();
  DING_ASSERT_OK_AND_ASSIGN(const auto waiting, transport_.Connect(listener_->address(), kLong));
  listener_.reset();
  // Who was not accepted is closed.
  EXPECT_TRUE(absl::IsUnavailable(waiting->Receive(kLong).status()));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.client->Send("ping", kLong).ok());
    ASSERT_TRUE(pair.server->Receive(kLong).ok());
    ASSERT_TRUE(pair.server->Send("pong", kLong).ok());
    ASSERT_TRUE(pair.client->Receive(kLong).ok());
  }
}

TEST_F(GrpcTransportTest, WhoClosedBeforeItWasAcceptedHasStillSent) {
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto client, transport_.Connect(listener_->address(), kLong));
    ASSERT_TRUE(client->Send("hello and goodbye", kLong).ok());
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto server, listener_->Accept(kLong));
  DING_ASSERT_OK_AND_ASSIGN(const std::string message, server->Receive(kLong));
  EXPECT_EQ(message, "hello and goodbye");
  EXPECT_TRUE(absl::IsUnavailable(server->Receive(kLong).status()));
}

TEST_F(GrpcTransportTest, ConnectWaitsForAListener) {
  const std::string address = listener_->address();
  listener_.reset();
  const absl::Status nobody = transport_.Connect(address, absl::Milliseconds(300)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(nobody)) << nobody;
  EXPECT_THAT(std::string(nobody.message()), HasSubstr(address));

  std::thread late([&] {
    absl::SleepFor(absl::Milliseconds(300));
    listener_ = transport_.Listen(address).value();
  });
  const auto client = transport_.Connect(address, kLong);
  late.join();
  EXPECT_TRUE(client.ok()) << client.status();
}

TEST_F(GrpcTransportTest, OnlyAddressesOfLoopback) {
  for (const std::string address :
       {"0.0.0.0:0", "192.168.1.1:5000", "[::]:0", "example.com:80", "8.8.8.8:53", "128.0.0.1:0"}) {
    const absl::Status status = transport_.Listen(address).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("TLS")) << address;
    EXPECT_TRUE(absl::IsInvalidArgument(transport_.Connect(address, kLong).status())) << address;
  }
  for (const std::string address : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                                    "127.0.0.1:-1", ":5000", "127.0.0.1:x", "[::1:0", "::1]:0"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(transport_.Listen(address).status())) << address;
    EXPECT_TRUE(absl::IsInvalidArgument(transport_.Connect(address, kLong).status())) << address;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(transport_.Connect("127.0.0.1:0", kLong).status()));
  for (const std::string address : {"localhost:0", "127.1.2.3:0"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto listener, transport_.Listen(address));
    EXPECT_FALSE(absl::EndsWith(listener->address(), ":0")) << listener->address();
    EXPECT_TRUE(transport_.Connect(listener->address(), kLong).ok());
  }
}

TEST_F(GrpcTransportTest, ManyConnections) {
  std::vector<Pair> pairs;
  for (int i = 0; i < 64; ++i) pairs.push_back(Connected());
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_TRUE(pairs[i].client->Send(absl::StrCat(i, "/", round), kLong).ok());
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, pairs[i].server->Receive(kLong));
      ASSERT_EQ(message, absl::StrCat(i, "/", round));
    }
  }
}

// More peers than may wait: the others are refused, try again, and get in.
TEST_F(GrpcTransportTest, APeerThatFindsTheListenerBusyTriesAgain) {
  std::vector<std::unique_ptr<Connection>> clients;
  absl::Status status;
  while (status.ok()) {
    auto client = transport_.Connect(listener_->address(), absl::Milliseconds(300));
    status = client.status();
    if (status.ok()) clients.push_back(*std::move(client));
    ASSERT_LE(clients.size(), 1000u);
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("too many"));
  std::thread accepter([&] {
    absl::SleepFor(kShort);
    EXPECT_TRUE(listener_->Accept(kLong).ok());
  });
  EXPECT_TRUE(transport_.Connect(listener_->address(), kLong).ok());
  accepter.join();
}

// ---- peers that speak something else

class RawSocket {
 public:
  explicit RawSocket(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~RawSocket() { close(fd_); }
  void Write(absl::string_view bytes) const { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

 private:
  const int fd_;
};

TEST_F(GrpcTransportTest, GarbageDisturbsNobody) {
  const Pair pair = Connected();
  const uint64_t seed = 20240607;
  SCOPED_TRACE(seed);
  Rng rng(seed, Rng::Purpose("test/garbage"));
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::vector<std::unique_ptr<RawSocket>> sockets;
  for (int i = 0; i < 60; ++i) {
    std::string garbage(static_cast<size_t>(rng.UniformInt(3000)), '\0');
    for (char& c : garbage) c = static_cast<char>(rng.UniformInt(256));
    sockets.push_back(std::make_unique<RawSocket>(listener_->address()));
    switch (i % 4) {
      case 0:
        sockets.back()->Write(garbage);
        break;
      case 1:
        sockets.back()->Write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        break;
      case 2:
        sockets.back()->Write(preface + garbage);
        break;
      case 3:
        break;  // Says nothing.
    }
    ASSERT_TRUE(pair.client->Send(garbage, kLong).ok());
    DING_ASSERT_OK_AND_ASSIGN(const std::string message, pair.server->Receive(kLong));
    ASSERT_EQ(message, garbage);
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto client, transport_.Connect(listener_->address(), kLong));
  EXPECT_TRUE(listener_->Accept(kLong).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(listener_->Accept(kShort).status()));
  // The sockets stay open: neither the listener nor the connections wait for them to go.
}

// A server that takes the connection and says nothing.
TEST_F(GrpcTransportTest, ConnectGivesUpOnAServerThatIsNone) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  sockaddr_in self = {};
  socklen_t size = sizeof(self);
  self.sin_family = AF_INET;
  self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&self), size), 0);
  ASSERT_EQ(listen(fd, 8), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&self), &size), 0);
  const std::string address = absl::StrCat("127.0.0.1:", ntohs(self.sin_port));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(transport_.Connect(address, absl::Milliseconds(300)).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(transport_.Listen(address).status()));
}

}  // namespace
}  // namespace ding
