// TCP sockets for tests of listeners, and HTTP/2 frames to send by them.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_INTERACTION_GRPC_TESTING_TCP_H_
#define DING_WORKER_INTERACTION_GRPC_TESTING_TCP_H_

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

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace ding {

// A TCP socket, closed by its destructor.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) { EXPECT_GE(fd, 0); }
  // Returns a socket that listens on a free port.
  static std::unique_ptr<Socket> Listening() {
    auto made = std::make_unique<Socket>(socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in any = Loopback(0);
    EXPECT_EQ(bind(made->fd_, reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(listen(made->fd_, 8), 0);
    return made;
  }
  static std::unique_ptr<Socket> ConnectedTo(const std::string& address) {
    auto made = std::make_unique<Socket>(socket(AF_INET, SOCK_STREAM, 0));
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    const sockaddr_in to = Loopback(port);
    EXPECT_EQ(connect(made->fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    return made;
  }
  ~Socket() { close(fd_); }

  int fd() const { return fd_; }
  std::string address() const {
    sockaddr_in self = {};
    socklen_t size = sizeof(self);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&self), &size), 0);
    return absl::StrCat("127.0.0.1:", ntohs(self.sin_port));
  }
  // Ignores errors, because the peer may have gone.
  void Write(absl::string_view bytes) const { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  const int fd_;
};

// Relays one TCP connection to `address`, records what the caller sends, and can cut the
// connection.
class Wire {
 public:
  explicit Wire(const std::string& address)
      : listening_(Socket::Listening()),
        to_(Socket::ConnectedTo(address)),
        thread_([this] { Carry(); }) {}
  ~Wire() { Cut(); }

  std::string address() const { return listening_->address(); }
  // The bytes that the caller has sent. Valid after Cut().
  const std::string& sent() const { return sent_; }
  void Cut() {
    cut_ = true;
    if (thread_.joinable()) thread_.join();
    to_.reset();
  }

 private:
  void Carry() {
    const Socket from(accept(listening_->fd(), nullptr, nullptr));
    pollfd ends[] = {{from.fd(), POLLIN, 0}, {to_->fd(), POLLIN, 0}};
    std::string bytes(1 << 16, '\0');
    while (!cut_) {
      if (poll(ends, 2, 1) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (ends[i].revents == 0) continue;
        const ssize_t size = read(ends[i].fd, &bytes[0], bytes.size());
        if (size <= 0) return;
        const absl::string_view carried =
            absl::string_view(bytes).substr(0, static_cast<size_t>(size));
        if (i == 0) sent_.append(carried.data(), carried.size());
        (i == 0 ? *to_ : from).Write(carried);
      }
    }
  }

  const std::unique_ptr<Socket> listening_;
  std::unique_ptr<Socket> to_;
  std::string sent_;  // written by the thread
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

// Builds HTTP/2 frames by hand (RFC 9113, with the HPACK of RFC 7541), for tests of input that
// gRPC's clients never send.
inline std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream,
                              absl::string_view body = "") {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(body.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream >> shift));
  return frame.append(body.data(), body.size());
}

// Returns the first bytes of a client. They acknowledge the server's settings before it has sent
// them.
inline std::string Http2Hello() {
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Http2Frame(4, 0, 0), Http2Frame(4, 1, 0));
}

// Returns the HEADERS frame of a gRPC call, without its data.
inline std::string Http2Call(uint32_t stream, absl::string_view path) {
  const auto field = [](absl::string_view name, absl::string_view value) {
    return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                        std::string(1, static_cast<char>(value.size())), value);
  };
  // The first two bytes are entries of the static table: POST and http.
  return Http2Frame(
      1, 4, stream,
      absl::StrCat("\x83\x86", field(":path", path), field(":authority", "localhost"),
                   field("te", "trailers"), field("content-type", "application/grpc")));
}

inline std::string Http2Reset(uint32_t stream) {
  return Http2Frame(3, 0, stream, absl::string_view("\0\0\0\x8", 4));
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_TESTING_TCP_H_
