#include "ding_worker/interaction/grpc/grpc_transport.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/link.grpc.pb.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "ding_worker/interaction/grpc/link_credentials.h"
#include "ding_worker/interaction/grpc/testing/tcp.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/interaction/transport/transport_conformance.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::StatusCode kAlreadyExists = absl::StatusCode::kAlreadyExists;
constexpr absl::StatusCode kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// Far longer than any operation here takes: one that waits so long has hung.
constexpr absl::Duration kLong = absl::Seconds(60);
// How long a test waits for an event that must not happen.
constexpr absl::Duration kShort = absl::Milliseconds(50);

TransportConformanceCase Grpc() {
  TransportConformanceCase grpc;
  grpc.name = "Grpc";
  grpc.create = [] { return std::make_unique<GrpcTransport>(); };
  grpc.fresh_address = [] { return Socket::Listening()->address(); };
  grpc.bad_address = "192.0.2.300:50051";
  return grpc;
}

// With certificates of both sides, and a token.
TransportConformanceCase SecureGrpc() {
  TransportConformanceCase grpc = Grpc();
  grpc.name = "SecureGrpc";
  grpc.create = [] {
    const std::string folder = FreshTestFolder();
    const TestAuthority authority(folder, "ca");
    authority.Issue("both");
    GrpcTransportOptions options;
    options.tls_ca = authority.path();
    options.tls_cert = JoinPath(folder, "both.pem");
    options.tls_key = JoinPath(folder, "both.key");
    options.token_file = JoinPath(folder, "tokens");
    options.role = "learner";
    WritePrivateFile(options.token_file, TestTokens());
    return std::make_unique<GrpcTransport>(options);
  };
  return grpc;
}

INSTANTIATE_TEST_SUITE_P(Grpc, TransportConformance, testing::Values(Grpc(), SecureGrpc()),
                         TransportConformanceName);

class GrpcTransportTest : public ::testing::Test {
 protected:
  struct Pair {
    std::unique_ptr<Connection> client;
    std::unique_ptr<Connection> server;
  };

  void SetUp() override { listener_ = transport_.Listen("127.0.0.1:0").value(); }

  Pair Connected() { return ConnectedBy(listener_->address()); }
  Pair ConnectedBy(const std::string& address) {
    Pair pair;
    pair.client = transport_.Connect(address, kLong).value();
    pair.server = listener_->Accept(kLong).value();
    return pair;
  }

  GrpcTransport transport_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(GrpcTransportTest, NamesThePeer) {
  const Pair pair = Connected();
  EXPECT_EQ(pair.client->peer(), listener_->address());
  EXPECT_THAT(pair.server->peer(), StartsWith("127.0.0.1:"));
  EXPECT_NE(pair.server->peer(), pair.client->peer());
}

// The messages are more than the kernel buffers, and the other side sends at the same time.
TEST_F(GrpcTransportTest, MessagesSentBeforeCloseArrive) {
  const std::string tail(100000, 'x');
  for (const bool client_closes : {true, false}) {
    const Pair pair = Connected();
    Connection* const from = (client_closes ? pair.client : pair.server).get();
    Connection* const to = (client_closes ? pair.server : pair.client).get();
    std::thread receiver([&] {
      ASSERT_THAT(to->Send("never received", kLong), IsOk());
      for (int i = 0; i < 200; ++i) {
        DING_ASSERT_OK_AND_ASSIGN(const std::string message, to->Receive(kLong));
        ASSERT_EQ(message, absl::StrCat(i, tail));
      }
      EXPECT_THAT(to->Receive(kLong), StatusIs(kUnavailable, HasSubstr("closed")));
    });
    for (int i = 0; i < 200; ++i) EXPECT_THAT(from->Send(absl::StrCat(i, tail), kLong), IsOk());
    from->Close();
    receiver.join();
  }
}

TEST_F(GrpcTransportTest, CloseGivesUpOnAPeerThatReceivesNothing) {
  for (const bool client_closes : {true, false}) {
    const Pair pair = Connected();
    Connection* const from = (client_closes ? pair.client : pair.server).get();
    Connection* const to = (client_closes ? pair.server : pair.client).get();
    absl::Status status;
    while (status.ok()) status = from->Send(std::string(1 << 20, 'x'), kShort);
    EXPECT_THAT(status, StatusIs(kDeadlineExceeded));
    from->Close();
    // Messages that had arrived can still be received.
    absl::StatusOr<std::string> message = to->Receive(kLong);
    EXPECT_THAT(message, IsOk());
    while (message.ok()) message = to->Receive(kLong);
    EXPECT_THAT(message, StatusIs(kUnavailable));
  }
}

TEST_F(GrpcTransportTest, BrokenTcpConnectionEndsBothSides) {
  for (const bool idle : {true, false}) {
    Wire wire(listener_->address());
    const Pair pair = ConnectedBy(wire.address());
    ASSERT_THAT(pair.client->Send("before", kLong), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const std::string before, pair.server->Receive(kLong));
    if (!idle) {
      while (pair.client->Send(std::string(1 << 20, 'x'), kShort).ok()) {
      }
    }
    wire.Cut();
    EXPECT_THAT(pair.client->Receive(kLong), StatusIs(kUnavailable));
    absl::StatusOr<std::string> message = pair.server->Receive(kLong);
    while (message.ok()) message = pair.server->Receive(kLong);
    EXPECT_THAT(message, StatusIs(kUnavailable));
    EXPECT_THAT(pair.client->Send("x", kLong), StatusIs(kUnavailable));
  }
}

TEST_F(GrpcTransportTest, NewListenerTakesTheAddressWhileAcceptedConnectionsStay) {
  const Pair pair = Connected();
  const std::string address = listener_->address();
  listener_.reset();
  listener_ = transport_.Listen(address).value();
  const Pair second = Connected();
  for (const Pair* each : {&pair, &second}) {
    ASSERT_THAT(each->client->Send("x", kLong), IsOk());
    EXPECT_THAT(each->server->Receive(kLong), IsOk());
  }
}

TEST_F(GrpcTransportTest, MessagesOfAPeerThatClosedBeforeAcceptArrive) {
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto client, transport_.Connect(listener_->address(), kLong));
    ASSERT_THAT(client->Send("hello and goodbye", kLong), IsOk());
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto server, listener_->Accept(kLong));
  DING_ASSERT_OK_AND_ASSIGN(const std::string message, server->Receive(kLong));
  EXPECT_EQ(message, "hello and goodbye");
  EXPECT_THAT(server->Receive(kLong), StatusIs(kUnavailable));
}

TEST_F(GrpcTransportTest, BeyondLoopbackNeedsTlsAndAToken) {
  for (const std::string address : {"0.0.0.0:0", "192.168.1.1:5000", "[::]:5000", "128.0.0.1:0"}) {
    EXPECT_THAT(transport_.Listen(address),
                StatusIs(kFailedPrecondition,
                         HasSubstr("--tls_cert, --tls_key, --tls_ca, --token_file are missing")));
  }
  for (const std::string address : {"0.0.0.0:5000", "192.168.1.1:5000", "example.com:80"}) {
    EXPECT_THAT(transport_.Connect(address, kLong),
                StatusIs(kFailedPrecondition, HasSubstr("--tls_ca, --token_file are missing")));
  }
}

TEST_F(GrpcTransportTest, ChecksAddresses) {
  for (const std::string address : {"",
                                    ":",
                                    "127.0.0.1",
                                    "127.0.0.1:",
                                    "127.0.0.1:65536",
                                    "127.0.0.1:-1",
                                    "127.0.0.1:x",
                                    ":5000",
                                    "[::1:0",
                                    "::1]:0",
                                    "[]:1",
                                    "1.2.3:5",
                                    "1.2.3.4.5:5",
                                    "256.1.1.1:5",
                                    "[127.0.0.1]:5",
                                    "a+b:5",
                                    "-a:5",
                                    "a b:5",
                                    "a/b:5",
                                    "dns:///a:5"}) {
    EXPECT_THAT(transport_.Listen(address), StatusIs(kInvalidArgument)) << address;
    EXPECT_THAT(transport_.Connect(address, kLong), StatusIs(kInvalidArgument)) << address;
  }
  EXPECT_THAT(transport_.Connect("127.0.0.1:0", kLong), StatusIs(kInvalidArgument));
  EXPECT_THAT(transport_.Listen("trainer.lan:0"), StatusIs(kInvalidArgument, HasSubstr("a name")));
  for (const std::string address : {"localhost:0", "127.1.2.3:0"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto listener, transport_.Listen(address));
    EXPECT_FALSE(absl::EndsWith(listener->address(), ":0")) << listener->address();
    EXPECT_THAT(transport_.Connect(listener->address(), kLong), IsOk());
  }
}

TEST_F(GrpcTransportTest, ManyConnections) {
  std::vector<Pair> pairs;
  for (int i = 0; i < 64; ++i) pairs.push_back(Connected());
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_THAT(pairs[i].client->Send(absl::StrCat(i, "/", round), kLong), IsOk());
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, pairs[i].server->Receive(kLong));
      ASSERT_EQ(message, absl::StrCat(i, "/", round));
    }
  }
}

// When too many peers wait to be accepted, further ones are refused, try again, and get in later.
TEST_F(GrpcTransportTest, RefusedPeerTriesAgainUntilTheListenerHasRoom) {
  std::vector<std::unique_ptr<Connection>> clients;
  absl::Status status;
  while (status.ok()) {
    auto client = transport_.Connect(listener_->address(), absl::Milliseconds(500));
    status = client.status();
    if (status.ok()) clients.push_back(*std::move(client));
    ASSERT_LE(clients.size(), 1000u);
  }
  EXPECT_THAT(status, StatusIs(kDeadlineExceeded, HasSubstr("too many")));
  EXPECT_TRUE(IsConnectRefused(status));
  std::thread acceptor([&] {
    absl::SleepFor(kShort);
    EXPECT_THAT(listener_->Accept(kLong), IsOk());
  });
  EXPECT_THAT(transport_.Connect(listener_->address(), kLong), IsOk());
  acceptor.join();
}

TEST_F(GrpcTransportTest, ConnectIsRefusedWithoutAListener) {
  const std::string address = listener_->address();
  listener_.reset();
  const absl::Status nobody = transport_.Connect(address, absl::Milliseconds(300)).status();
  EXPECT_THAT(nobody, StatusIs(kDeadlineExceeded, HasSubstr(address)));
  EXPECT_TRUE(IsConnectRefused(nobody)) << nobody;
}

// The server takes the TCP connection and sends nothing.
TEST_F(GrpcTransportTest, ConnectTimesOutOnASilentServer) {
  const auto socket = Socket::Listening();
  // gRPC gives up an attempt after two seconds, and that is no answer either.
  for (const absl::Duration timeout : {absl::Milliseconds(300), absl::Seconds(3)}) {
    const absl::Status silent = transport_.Connect(socket->address(), timeout).status();
    EXPECT_THAT(silent, StatusIs(kDeadlineExceeded, HasSubstr(socket->address())));
    EXPECT_FALSE(IsConnectRefused(silent)) << silent;
  }
  EXPECT_THAT(transport_.Listen(socket->address()), StatusIs(kAlreadyExists));
}

// ---- peers that speak something else

// The sockets stay open until the end, so the listener must not wait for them to close.
// The sockets that this process has open.
int64_t OpenSockets() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::count_if(begin(descriptors), end(descriptors), [](const auto& descriptor) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(descriptor, gone).string();
    return absl::StartsWith(target, "socket:");
  });
}

// Like a listener whose process is stopped for a moment: the kernel takes its connections, and it
// answers later.
TEST_F(GrpcTransportTest, AttemptsThatAreAnsweredLate_LeaveNoSocketOpen) {
  listener_
      // Without a listener, gRPC shuts down between two attempts unless a channel is left.
      .reset();
  const auto listener = Socket::Listening();
  const int64_t before = OpenSockets();
  // gRPC gives up an attempt after two seconds, and begins another one.
  for (const int millis : {100, 100, 100, 2500, 100}) {
    EXPECT_THAT(transport_.Connect(listener->address(), absl::Milliseconds(millis)),
                StatusIs(kDeadlineExceeded));
  }
  EXPECT_LE(OpenSockets(), before + 1) << "attempts at one address share a TCP connection";
  std::vector<std::unique_ptr<Socket>> late;
  for (pollfd polled = {listener->fd(), POLLIN, 0}; poll(&polled, 1, /*timeout=*/0) == 1;) {
    late.push_back(std::make_unique<Socket>(accept(listener->fd(), nullptr, nullptr)));
    late.back()->Write(absl::string_view("\0\0\0\x04\0\0\0\0\0", 9));  // empty HTTP/2 SETTINGS
  }
  ASSERT_FALSE(late.empty());
  absl::SleepFor(kShort);  // for the settings to arrive
  late.clear();
  const absl::Time deadline = absl::Now() + kLong;
  while (OpenSockets() > before && absl::Now() < deadline) absl::SleepFor(kShort);
  EXPECT_EQ(OpenSockets(), before);
}

TEST_F(GrpcTransportTest, GarbageDoesNotDisturbOtherPeers) {
  constexpr uint64_t kSeed = 20240607;
  Rng rng(kSeed, Rng::Purpose("test/garbage"));
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
  std::vector<std::unique_ptr<Socket>> sockets;
  const Pair pair = Connected();
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", socket ", i));
    std::string garbage(static_cast<size_t>(rng.UniformInt(3000)), '\0');
    for (char& c : garbage) c = static_cast<char>(rng.UniformInt(256));
    const std::string texts[] = {garbage, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", preface + garbage,
                                 preface + settings + garbage, ""};
    sockets.push_back(Socket::ConnectedTo(listener_->address()));
    sockets.back()->Write(texts[i % 5]);
    ASSERT_THAT(pair.client->Send(garbage, kLong), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const std::string message, pair.server->Receive(kLong));
    ASSERT_EQ(message, garbage);
  }
  EXPECT_THAT(listener_->Accept(kShort), StatusIs(kDeadlineExceeded));
  const Pair late = Connected();
  ASSERT_THAT(late.client->Send("x", kLong), IsOk());
  EXPECT_THAT(late.server->Receive(kLong), IsOk());
}

TEST_F(GrpcTransportTest, PeerThatExceedsALimitIsDisconnected) {
  const Pair pair = Connected();
  link::Frames large;  // gRPC refuses it.
  large.add_message(std::string(kMaxMessageBytes + 1000, 'x'));
  link::Frames slightly_large;
  slightly_large.add_message(std::string(kMaxMessageBytes + 1, 'x'));
  link::Frames many;
  for (int i = 0; i <= kMaxQueuedMessages; ++i) many.add_message("x");
  // Parts of messages that are too long in all, that announce far too many bytes, and that are
  // empty.
  link::Frames too_long;
  too_long.add_message(std::string(1000, 'x'));
  too_long.set_rest(kMaxMessageBytes - 999);
  link::Frames endless = too_long;
  endless.set_rest(std::numeric_limits<uint64_t>::max() - 500);
  link::Frames nothing;
  nothing.add_message("");
  nothing.set_rest(10);
  for (const link::Frames* frames :
       {&large, &slightly_large, &many, &too_long, &endless, &nothing}) {
    const auto stub = link::Link::NewStub(
        grpc::CreateChannel(listener_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto stream = stub->Open(&context);
    DING_ASSERT_OK_AND_ASSIGN(const auto server, listener_->Accept(kLong));
    stream->Write(*frames);
    EXPECT_THAT(server->Receive(kLong), StatusIs(kUnavailable)) << frames->ByteSizeLong();
    EXPECT_FALSE(stream->Finish().ok());
    ASSERT_THAT(pair.client->Send("x", kLong), IsOk());
    EXPECT_THAT(pair.server->Receive(kLong), IsOk());
  }
}

TEST_F(GrpcTransportTest, PeerThatSendsInconsistentPartsIsDisconnected) {
  // The Frames that follow a first part of 10 bytes with 20 still to come.
  struct Next {
    std::vector<std::string> parts;
    uint64_t rest = 0;
  };
  for (const Next& next : {Next{{std::string(21, 'x')}},
                           {{std::string(19, 'x')}},
                           {{std::string(10, 'x')}, 11},
                           {{std::string(10, 'x'), "the next"}},
                           {{std::string(30, 'x')}, std::numeric_limits<uint64_t>::max() - 9},
                           {{""}, 20}}) {
    const auto stub = link::Link::NewStub(
        grpc::CreateChannel(listener_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto stream = stub->Open(&context);
    DING_ASSERT_OK_AND_ASSIGN(const auto server, listener_->Accept(kLong));
    link::Frames frames;
    frames.add_message("before");
    frames.add_message(std::string(10, 'x'));
    frames.set_rest(20);
    stream->Write(frames);
    DING_ASSERT_OK_AND_ASSIGN(const std::string before, server->Receive(kLong));
    EXPECT_EQ(before, "before");
    frames.Clear();
    for (const std::string& part : next.parts) frames.add_message(part);
    if (next.rest > 0) frames.set_rest(next.rest);
    stream->Write(frames);
    EXPECT_THAT(server->Receive(kLong), StatusIs(kUnavailable, HasSubstr("a part of")));
    EXPECT_FALSE(stream->Finish().ok());
  }
}

// A peer that is not yet accepted cannot make the listener use much memory.
TEST_F(GrpcTransportTest, UnacceptedConnectionIsReadOnce) {
  DING_ASSERT_OK_AND_ASSIGN(const auto client, transport_.Connect(listener_->address(), kLong));
  absl::Status status;
  int64_t sent = 0;
  while (status.ok() && sent < 64) {
    status = client->Send(std::string(1 << 20, 'x'), absl::Milliseconds(500));
    sent += status.ok() ? 1 : 0;
  }
  EXPECT_THAT(status, StatusIs(kDeadlineExceeded));
  EXPECT_LE(sent, 20) << "the sender's queue, one Frames, and what gRPC and the kernel have";
  DING_ASSERT_OK_AND_ASSIGN(const auto server, listener_->Accept(kLong));
  for (int64_t i = 0; i < sent; ++i) EXPECT_THAT(server->Receive(kLong), IsOk());
}

}  // namespace
}  // namespace ding
