#include "ding_worker/interaction/grpc/link_address.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace ding {
namespace {

// The longest name of a host, by RFC 1035.
constexpr size_t kMaxNameBytes = 253;

// Whether `name` can be the name of a host, such as "trainer-1.lan", or of a container, such as
// "rl_coordinator": Docker allows underscores. Its last part must contain a letter; otherwise it is
// a mistyped numeric address.
bool IsHostName(absl::string_view name) {
  const absl::string_view last = name.substr(name.rfind('.') + 1);
  const auto is_word = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
  return name.size() <= kMaxNameBytes && is_word(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_word(c) || c == '-' || c == '.'; }) &&
         std::any_of(last.begin(), last.end(), absl::ascii_isalpha);
}

bool IsV4(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsV6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Peers that the kernel keeps until they are accepted.
constexpr int kBacklog = 4096;
// How long the kernel waits for an answer to what was sent.
constexpr absl::Duration kUserTimeout = absl::Seconds(20);

// Returns a listening socket of `family`, which can express `endpoint`; -1: errno says why there is
// none.
int ListenAt(const LinkAddress& endpoint, int family, int receive_bytes) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  absl::Cleanup close_fd = [fd] {
    const int error = errno;
    close(fd);
    errno = error;
  };
  const int on = 1;
  const int off = 0;
  const auto user_timeout = static_cast<unsigned int>(absl::ToInt64Milliseconds(kUserTimeout));
  sockaddr_storage storage = {};
  socklen_t size = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    size = sizeof(v6);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<uint16_t>(endpoint.port));
    if (endpoint.kind == LinkAddress::Kind::kV6) {
      inet_pton(AF_INET6, endpoint.host.c_str(), &v6.sin6_addr);
    }
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) return -1;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(endpoint.port));
    inet_pton(AF_INET, endpoint.host.c_str(), &v4.sin_addr);
  }
  // SO_REUSEADDR: what is left of the connections of a listener that is gone does not matter.
  // Accepted sockets inherit the other options.
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes)) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout)) != 0 ||
      bind(fd, reinterpret_cast<const sockaddr*>(&storage), size) != 0 ||
      listen(fd, kBacklog) != 0) {
    return -1;
  }
  std::move(close_fd).Cancel();
  return fd;
}

}  // namespace

std::string LinkAddress::ToString() const {
  return kind == Kind::kV6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

std::string LinkAddress::target() const {
  switch (kind) {
    case Kind::kV4:
      return absl::StrCat("ipv4:", ToString());
    case Kind::kV6:
      return absl::StrCat("ipv6:", ToString());
    case Kind::kName:
      return absl::StrCat("dns:///", ToString());
  }
  return "";
}

bool LinkAddress::loopback() const {
  in_addr v4;
  in6_addr v6;
  if (kind == Kind::kV4) {
    return inet_pton(AF_INET, host.c_str(), &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
  }
  return kind == Kind::kV6 && inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<LinkAddress> ParseLinkAddress(const std::string& address) {
  LinkAddress parsed;
  parsed.authority = address;
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  const bool brackets = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  parsed.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  parsed.kind = brackets            ? LinkAddress::Kind::kV6
                : IsV4(parsed.host) ? LinkAddress::Kind::kV4
                                    : LinkAddress::Kind::kName;
  const bool host_ok = !host.empty() && (brackets ? IsV6(parsed.host)
                                                  : IsV4(parsed.host) || IsHostName(parsed.host));
  const bool has_port = colon != std::string::npos;
  if (!has_port || !host_ok ||
      !absl::SimpleAtoi(absl::string_view(address).substr(colon + 1), &parsed.port) ||
      parsed.port < 0 || parsed.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "' is not an address: ",
        !has_port  ? "it has no port"
        : !host_ok ? absl::StrCat("'", host,
                                  "' is neither a number nor a name of letters, digits, '-', '_' "
                                  "and '.'")
                   : "its port is not a number from 0 to 65535",
        "; expected an address like 127.0.0.1:50051, [::1]:50051 or trainer.lan:50051"));
  }
  return parsed;
}

Remote RemoteOf(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return {absl::StrCat(text, ":", ntohs(v4.sin_port)), text};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return {absl::StrCat(text, ":", ntohs(v6.sin6_port)), text};
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  const std::string peer = absl::StrCat("[", text, "]:", ntohs(v6.sin6_port));
  in6_addr network = v6.sin6_addr;
  std::fill(&network.s6_addr[8], &network.s6_addr[16], uint8_t{0});
  inet_ntop(AF_INET6, &network, text, sizeof(text));
  return {peer, text};
}

absl::Status CannotListen(const LinkAddress& endpoint, int error) {
  const std::string message =
      absl::StrCat("cannot listen on ", endpoint.ToString(), ": ", std::strerror(error));
  return error == EADDRINUSE ? absl::AlreadyExistsError(message) : absl::UnavailableError(message);
}

absl::StatusOr<int> ListenOn(const LinkAddress& endpoint, int receive_bytes) {
  const bool v4 = endpoint.kind == LinkAddress::Kind::kV4;
  const bool both = endpoint.host == "0.0.0.0";
  int listen_fd = ListenAt(endpoint, v4 && !both ? AF_INET : AF_INET6, receive_bytes);
  // A machine may have no IPv6.
  if (listen_fd < 0 && both && errno != EADDRINUSE) {
    listen_fd = ListenAt(endpoint, AF_INET, receive_bytes);
  }
  if (listen_fd < 0) return CannotListen(endpoint, errno);
  return listen_fd;
}

int PortOf(int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

int64_t ReceivedBytes(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return static_cast<int64_t>(info.tcpi_bytes_received);
}

void SetReceiveBytes(int fd, int bytes) {
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

void CutSocket(int fd) {
  sockaddr nobody = {};
  nobody.sa_family = AF_UNSPEC;
  // Another thread may read from it meanwhile. ThreadSanitizer takes connect() for the creation of
  // the descriptor and would report a race, so it does not see this call.
  if (syscall(SYS_connect, fd, &nobody, sizeof(nobody)) != 0) shutdown(fd, SHUT_RDWR);
}

void CloseAtOnce(int fd) {
  const linger none = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  close(fd);
}

void CloseIfOpen(int* fd) {
  if (*fd >= 0) close(std::exchange(*fd, -1));
}

}  // namespace ding
