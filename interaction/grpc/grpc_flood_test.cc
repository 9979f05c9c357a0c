// Tests a listener against peers that only need to be able to connect: they open as many
// connections and make as many calls as they like, while this process has few descriptors.

#include <fcntl.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/grpc/link_credentials.h"
#include "ding_worker/interaction/grpc/testing/tcp.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// Far longer than any operation here takes: one that waits so long has hung.
constexpr absl::Duration kLong = absl::Seconds(60);
constexpr int kFew = 256;
constexpr char kOpen[] = "/ding.link.Link/Open";

// Sets the soft limit of open files until the end of the scope.
class DescriptorLimitScope {
 public:
  explicit DescriptorLimitScope(rlim_t limit) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit lowered = before_;
    lowered.rlim_cur = limit;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
  }
  ~DescriptorLimitScope() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

// A child process that opens connections, and keeps them until it is told to end.
class Crowd {
 public:
  // Opens `count` connections to the port of `address` and sends `bytes` over each.
  Crowd(const std::string& address, int count, const std::string& bytes) {
    sockaddr_in to = {};
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    child_ = fork();
    if (child_ == 0) Run(ends[1], to, count, bytes);
    close(ends[1]);
    wire_ = ends[0];
  }
  ~Crowd() {
    close(wire_);
    EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
  }

  // Returns when the kernel has connected all of them.
  void Connect() const {
    char byte = 'g';
    EXPECT_EQ(write(wire_, &byte, 1), 1);
    EXPECT_EQ(read(wire_, &byte, 1), 1);
  }
  // Waits until the listener has closed the last connection.
  bool WaitUntilTheLastIsClosed() const {
    pollfd polled = {wire_, POLLIN, 0};
    return poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(kLong))) == 1;
  }

 private:
  // Makes only system calls, because the forked process had threads.
  [[noreturn]] static void Run(int wire, const sockaddr_in& to, int count,
                               const std::string& bytes) {
    constexpr int kWire = 3;
    if (wire != kWire) dup2(wire, kWire);
    close_range(kWire + 1, ~0U, 0);
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    pollfd polled[] = {{kWire, POLLIN, 0}, {-1, POLLIN, 0}};
    char said[4096];
    if (read(kWire, said, 1) != 1) _exit(1);
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) continue;
      if (!bytes.empty()) send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      polled[1].fd = fd;
    }
    if (write(kWire, "r", 1) != 1) _exit(1);
    while (poll(polled, 2, -1) > 0 && polled[0].revents == 0) {
      if (read(polled[1].fd, said, sizeof(said)) > 0) continue;
      polled[1].fd = -1;
      if (write(kWire, "c", 1) != 1) _exit(1);
    }
    _exit(0);
  }

  pid_t child_ = -1;
  int wire_ = -1;
};

struct Case {
  std::string name;
  bool secure = false;
};

class GrpcFloodTest : public testing::TestWithParam<Case> {
 protected:
  struct Pair {
    std::unique_ptr<Connection> client;
    std::unique_ptr<Connection> server;
  };

  GrpcFloodTest() {
    if (!GetParam().secure) return;
    const TestAuthority authority(folder_, "ca");
    authority.Issue("both");
    options_.tls_ca = authority.path();
    options_.tls_cert = JoinPath(folder_, "both.pem");
    options_.tls_key = JoinPath(folder_, "both.key");
    options_.token_file = JoinPath(folder_, "tokens");
    options_.role = "learner";
    WritePrivateFile(options_.token_file, TestTokens());
  }

  void Listen() { listener_ = GrpcTransport(options_).Listen("127.0.0.1:0").value(); }
  const std::string& address() const { return listener_->address(); }

  // Connects an honest peer, and receives its first message.
  absl::StatusOr<Pair> Join() {
    Pair pair;
    DING_ASSIGN_OR_RETURN(pair.client, GrpcTransport(options_).Connect(address(), kLong));
    // Connections of other peers may wait in front of it.
    while (true) {
      DING_ASSIGN_OR_RETURN(pair.server, listener_->Accept(kLong));
      DING_RETURN_IF_ERROR(pair.client->Send("hello", kLong));
      if (pair.server->Receive(absl::Seconds(1)).ok()) return pair;
    }
  }
  static absl::Status Exchange(const Pair& pair) {
    DING_RETURN_IF_ERROR(pair.client->Send("ping", kLong));
    DING_RETURN_IF_ERROR(pair.server->Receive(kLong).status());
    DING_RETURN_IF_ERROR(pair.server->Send("pong", kLong));
    return pair.client->Receive(kLong).status();
  }

  const std::string folder_ = FreshTestFolder();
  GrpcTransportOptions options_;
  std::unique_ptr<Listener> listener_;
};

INSTANTIATE_TEST_SUITE_P(All, GrpcFloodTest,
                         testing::Values(Case{"Plain", false}, Case{"TlsAndToken", true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(GrpcFloodTest, SilentConnectionsDoNotBlockPeers) {
  const DescriptorLimitScope limit(kFew);
  Listen();
  DING_ASSERT_OK_AND_ASSIGN(const Pair before, Join());
  {
    const Crowd crowd(address(), 1200, "");
    crowd.Connect();
    DING_ASSERT_OK_AND_ASSIGN(const Pair during, Join());
    EXPECT_THAT(Exchange(before), IsOk());
    EXPECT_THAT(Exchange(during), IsOk());
    // The process can still write files, such as its journal, checkpoints and logs.
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(WriteFileAtomically(JoinPath(folder_, absl::StrCat("file", i)), "x"), IsOk());
    }
  }
  EXPECT_THAT(Join(), IsOk());
  EXPECT_THAT(Exchange(before), IsOk());
}

// These connections send enough bytes to be handed to gRPC.
TEST_P(GrpcFloodTest, ConnectionsWithoutACallDoNotBlockPeers) {
  const DescriptorLimitScope limit(kFew);
  Listen();
  DING_ASSERT_OK_AND_ASSIGN(const Pair before, Join());
  // With TLS, a record that announces more bytes than follow.
  const std::string bytes = GetParam().secure ? std::string("\x16\x03\x01\x02", 4) : Http2Hello();
  const Crowd crowd(address(), 1200, bytes);
  crowd.Connect();
  EXPECT_THAT(Join(), IsOk());
  EXPECT_THAT(Exchange(before), IsOk());
}

TEST_P(GrpcFloodTest, AcceptsAgainAfterDescriptorsRanOut) {
  const DescriptorLimitScope limit(kFew);
  Listen();
  DING_ASSERT_OK_AND_ASSIGN(const Pair before, Join());
  {
    const Crowd crowd(address(), 1, "");
    std::vector<int> files;
    int file;
    while ((file = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) files.push_back(file);
    EXPECT_EQ(errno, EMFILE);
    crowd.Connect();
    EXPECT_TRUE(crowd.WaitUntilTheLastIsClosed()) << "the connection waits for a descriptor";
    for (const int each : files) close(each);
  }
  EXPECT_THAT(Join(), IsOk());
  EXPECT_THAT(Exchange(before), IsOk());
}

TEST_P(GrpcFloodTest, ListenFailsWithTooFewDescriptors) {
  const DescriptorLimitScope limit(63);
  EXPECT_THAT(GrpcTransport(options_).Listen("127.0.0.1:0"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::HasSubstr("the limit of open files is 63, expected at least 64")));
}

// ---- calls of a peer that is let in

// A hand-made connection with one call that is let in and stays open.
class Caller {
 public:
  explicit Caller(const std::string& address) : socket_(Socket::ConnectedTo(address)) {
    const timeval patience = absl::ToTimeval(kLong);
    EXPECT_EQ(setsockopt(socket_->fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    socket_->Write(absl::StrCat(Http2Hello(), Http2Call(1, kOpen)));
  }

  // Sends frames and waits until the listener has read them. Returns false if the listener has
  // ended the connection.
  bool Send(const std::string& frames) {
    socket_->Write(absl::StrCat(frames, Http2Frame(kSettings, 0, 0)));
    ++settings_sent_;
    while (settings_acknowledged_ < settings_sent_) {
      if (!ReadFrame()) return false;
    }
    return true;
  }

 private:
  static constexpr uint8_t kSettings = 4;
  static constexpr size_t kHeader = 9;

  bool Read(size_t size) {
    bytes_.resize(size);
    return recv(socket_->fd(), &bytes_[0], size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }
  bool ReadFrame() {
    if (!Read(kHeader)) return false;
    size_t size = 0;
    for (int i = 0; i < 3; ++i) size = size << 8 | static_cast<uint8_t>(bytes_[i]);
    settings_acknowledged_ += bytes_[3] == kSettings && bytes_[4] == 1;
    return size == 0 || Read(size);
  }

  std::unique_ptr<Socket> socket_;
  std::string bytes_;
  int settings_sent_ = 1;  // Http2Hello() sends the first
  int settings_acknowledged_ = 0;
};

class CallFloodTest : public GrpcFloodTest {
 protected:
  static constexpr uint32_t kCalls = 10000;

  // Makes calls, each on a stream of its own, and expects to be cut before the last one.
  void Flood(const std::function<std::string(uint32_t stream)>& call) {
    Listen();
    Caller caller(address());
    DING_ASSERT_OK_AND_ASSIGN(const auto server, listener_->Accept(kLong));
    DING_ASSERT_OK_AND_ASSIGN(const Pair honest, Join());
    uint32_t calls = 0;
    std::string frames;
    do {
      frames.clear();
      for (int i = 0; i < 4; ++i) frames += call(2 * ++calls + 1);
    } while (caller.Send(frames) && calls < kCalls);
    EXPECT_LT(calls, kCalls);
    EXPECT_THAT(server->Receive(kLong), StatusIs(kUnavailable));
    EXPECT_THAT(Exchange(honest), IsOk());
    EXPECT_THAT(Join(), IsOk());
  }
};

INSTANTIATE_TEST_SUITE_P(All, CallFloodTest, testing::Values(Case{"Plain", false}),
                         [](const auto& info) { return info.param.name; });

TEST_P(CallFloodTest, PeerThatOpensTooManyCallsIsDisconnected) {
  Flood([](uint32_t stream) { return Http2Call(stream, kOpen); });
}

TEST_P(CallFloodTest, PeerThatKeepsCallingUnknownMethodsIsDisconnected) {
  Flood([](uint32_t stream) { return Http2Call(stream, "/no.Such/Method"); });
}

TEST_P(CallFloodTest, PeerThatKeepsResettingCallsIsDisconnected) {
  for (const std::string path : {kOpen, "/no.Such/Method"}) {
    Flood([&path](uint32_t stream) {
      return absl::StrCat(Http2Call(stream, path), Http2Reset(stream));
    });
  }
}

// The calls are refused because they show no token.
TEST_P(CallFloodTest, PeerThatIsRefusedTooOftenIsDisconnected) {
  options_.token_file = JoinPath(folder_, "tokens");
  options_.role = "learner";
  WritePrivateFile(options_.token_file, TestTokens());
  Listen();
  Caller caller(address());
  uint32_t calls = 0;
  while (calls < kCalls && caller.Send(Http2Call(2 * calls + 3, kOpen))) ++calls;
  EXPECT_LT(calls, kCalls);
  EXPECT_THAT(Join(), IsOk());
}

}  // namespace
}  // namespace ding
