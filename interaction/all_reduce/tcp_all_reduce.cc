#include "ding_worker/interaction/all_reduce/tcp_all_reduce.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Changes with what the ranks send.
constexpr char kVersion[] = "ding-tcp-1";
constexpr size_t kSecretSize = 32;
// Connections that may wait for their secret to be checked; the oldest one is dropped.
constexpr size_t kMaxStrangers = 16;
constexpr size_t kBlock = size_t{256} << 10;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

std::string ErrnoText() { return std::strerror(errno); }
bool WouldWait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Waits for an event of a descriptor. Returns false if the deadline has passed, whatever has
// happened: a peer that never stops must not keep this rank.
bool Poll(std::vector<pollfd>* fds, const Deadline& deadline) {
  while (!deadline.Passed()) {
    const int64_t left = absl::ToInt64Milliseconds(deadline.Left());
    const int timeout = static_cast<int>(std::min<int64_t>(left + 1, 60000));
    const int ready = poll(fds->data(), fds->size(), timeout);
    if (ready > 0) return true;
  }
  return false;
}

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

absl::StatusOr<Address> Resolve(const std::string& host, const std::string& port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("'", host, "' is not an address: ", gai_strerror(error)));
  }
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

absl::StatusOr<Socket> OpenSocket(const Address& address) {
  Socket opened(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (opened.fd() < 0) return absl::UnavailableError(absl::StrCat("no socket: ", ErrnoText()));
  return opened;
}

// Where a rank accepts the connection of the rank before it.
struct Listener {
  Socket socket;
  std::string secret;
  std::string text;  // for the other ranks: "VERSION HOST PORT SECRET"
};

absl::StatusOr<Listener> Listen(const std::string& host) {
  DING_ASSIGN_OR_RETURN(Address address, Resolve(host, "0", AI_PASSIVE));
  Listener listener;
  DING_ASSIGN_OR_RETURN(listener.socket, OpenSocket(address));
  const int fd = listener.socket.fd();
  char numeric[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (bind(fd, address.get(), address.size) != 0 || listen(fd, kMaxStrangers) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0 ||
      getnameinfo(address.get(), address.size, numeric, sizeof(numeric), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", host, ": ", ErrnoText()));
  }
  std::random_device random;
  while (listener.secret.size() < kSecretSize) {
    absl::StrAppendFormat(&listener.secret, "%08x", static_cast<uint32_t>(random()));
  }
  listener.text = absl::StrCat(kVersion, " ", numeric, " ", port, " ", listener.secret);
  return listener;
}

// Connects to the listener of `text`, and shows its secret.
absl::StatusOr<Socket> ConnectTo(const std::string& text, const Deadline& deadline) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  if (parts.size() != 4 || parts[0] != kVersion || parts[3].size() != kSecretSize) {
    return absl::UnavailableError(absl::StrCat("it is at '", text, "', expected '", kVersion,
                                               " HOST PORT SECRET': another version?"));
  }
  DING_ASSIGN_OR_RETURN(const Address address,
                        Resolve(parts[1], parts[2], AI_NUMERICHOST | AI_NUMERICSERV));
  DING_ASSIGN_OR_RETURN(Socket next, OpenSocket(address));
  const auto failed = [&](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat(parts[1], " port ", parts[2], ": ", why));
  };
  if (connect(next.fd(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
    return failed(ErrnoText());
  }
  std::vector<pollfd> connected = {{next.fd(), POLLOUT, 0}};
  if (!Poll(&connected, deadline)) return absl::DeadlineExceededError("it does not answer");
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(next.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return failed(std::strerror(error));
  const int on = 1;
  setsockopt(next.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // The buffer of a new connection has room for it.
  const ssize_t sent = send(next.fd(), parts[3].data(), kSecretSize, MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(kSecretSize)) {
    return failed(sent < 0 ? ErrnoText() : "it took only a part of the secret");
  }
  return next;
}

// Accepts the connection of the rank that knows the secret. All others are dropped.
absl::StatusOr<Socket> AcceptFrom(const Listener& listener, const Deadline& deadline) {
  struct Stranger {
    Socket socket;
    std::string shown;
  };
  std::deque<Stranger> strangers;
  while (true) {
    std::vector<pollfd> fds = {{listener.socket.fd(), POLLIN, 0}};
    for (const Stranger& stranger : strangers) fds.push_back({stranger.socket.fd(), POLLIN, 0});
    if (!Poll(&fds, deadline)) return absl::DeadlineExceededError("it does not connect");
    for (size_t i = strangers.size(); i > 0; --i) {
      if (fds[i].revents == 0) continue;
      Stranger& stranger = strangers[i - 1];
      char bytes[kSecretSize];
      const ssize_t size =
          recv(stranger.socket.fd(), bytes, kSecretSize - stranger.shown.size(), MSG_DONTWAIT);
      if (size > 0) stranger.shown.append(bytes, static_cast<size_t>(size));
      if (stranger.shown == listener.secret) return std::move(stranger.socket);
      const bool waits = size < 0 && WouldWait();
      if ((size <= 0 && !waits) || stranger.shown.size() == kSecretSize) {
        strangers.erase(strangers.begin() + static_cast<ptrdiff_t>(i - 1));
      }
    }
    if (fds[0].revents == 0) continue;
    Socket accepted(accept4(listener.socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.fd() < 0) {
      if (WouldWait() || errno == ECONNABORTED) continue;
      return absl::UnavailableError(absl::StrCat("accepting connections: ", ErrnoText()));
    }
    if (strangers.size() == kMaxStrangers) strangers.pop_front();
    strangers.push_back({std::move(accepted), ""});
  }
}

// Precedes the values of each call.
struct Header {
  enum Kind : uint64_t { kFloats = 1, kDoubles = 2, kBytes = 3 };
  uint64_t kind = 0;
  uint64_t size = 0;  // the number of values; of kBytes 0
};

std::string Describe(const Header& header) {
  switch (header.kind) {
    case Header::kFloats:
      return absl::StrCat("adds ", header.size, " floats");
    case Header::kDoubles:
      return absl::StrCat("adds ", header.size, " doubles");
    case Header::kBytes:
      return "broadcasts";
    default:
      return absl::StrCat("makes an unknown call (", header.kind, ")");
  }
}

template <typename T>
absl::string_view Bytes(const T* values, size_t size) {
  return {reinterpret_cast<const char*>(values), size * sizeof(T)};
}

class TcpAllReduce : public AllReduce {
 public:
  TcpAllReduce(const AllReduceOptions& options, Socket next, Socket previous)
      : options_(options), next_(std::move(next)), previous_(std::move(previous)) {}
  ~TcpAllReduce() override { Abort(); }

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }

  absl::Status Sum(absl::Span<float> values) override {
    return Run({Header::kFloats, values.size()}, [&] { return SumOf(values); });
  }
  absl::Status Sum(absl::Span<double> values) override {
    return Run({Header::kDoubles, values.size()}, [&] { return SumOf(values); });
  }
  absl::Status Broadcast(std::string* bytes) override {
    return Run({Header::kBytes, 0}, [&] { return rank() == 0 ? Send(*bytes) : Forward(bytes); });
  }

  // The sockets are only shut down: other threads may be using them.
  void Abort() override {
    aborted_.store(true);
    shutdown(next_.fd(), SHUT_RDWR);
    shutdown(previous_.fd(), SHUT_RDWR);
  }

 private:
  int Rank(int steps) const { return (rank() + world_size() + steps) % world_size(); }

  // Makes one call after its headers were exchanged. An error ends the group.
  template <typename Call>
  absl::Status Run(const Header& header, const Call& call) {
    if (!dead_.ok() || world_size() == 1) return dead_;
    deadline_ = Deadline::After(options_.timeout);
    absl::Status status = ExchangeHeaders(header);
    if (status.ok()) status = call();
    if (status.ok()) return status;
    if (aborted_.load()) status = absl::CancelledError("this learner has left the group");
    dead_ = Annotate(status, absl::StrCat("all-reduce group '", options_.group, "', rank ", rank(),
                                          " of ", world_size()));
    Abort();
    return dead_;
  }

  absl::Status ExchangeHeaders(const Header& own) {
    Header other;
    DING_RETURN_IF_ERROR(Exchange(Bytes(&own, 1), &other, 1));
    if (other.kind == own.kind && other.size == own.size) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("rank ", Rank(-1), " ", Describe(other),
                                                   ", this rank ", Describe(own),
                                                   ", expected the same call in all ranks"));
  }

  template <typename T>
  absl::Status SumOf(absl::Span<T> values) {
    const auto ranks = static_cast<size_t>(world_size());
    const auto part = [&](int steps) {
      const auto i = static_cast<size_t>(Rank(steps));
      const size_t begin = values.size() / ranks * i + std::min(i, values.size() % ranks);
      const size_t size = values.size() / ranks + (i < values.size() % ranks ? 1 : 0);
      return values.subspan(begin, size);
    };
    for (int step = 0; step < world_size() - 1; ++step) {
      const absl::Span<T> out = part(-step);
      const absl::Span<T> in = part(-step - 1);
      DING_RETURN_IF_ERROR(ExchangeAndAdd(Bytes(out.data(), out.size()), in));
    }
    for (int step = 0; step < world_size() - 1; ++step) {
      const absl::Span<T> out = part(1 - step);
      const absl::Span<T> in = part(-step);
      DING_RETURN_IF_ERROR(Exchange(Bytes(out.data(), out.size()), in.data(), in.size()));
    }
    return absl::OkStatus();
  }

  absl::Status Send(const std::string& bytes) {
    const uint64_t size = bytes.size();
    DING_RETURN_IF_ERROR(Exchange(Bytes(&size, 1), block_.data(), 0));
    return Exchange(bytes, block_.data(), 0);
  }

  // Passes each block on while it receives the next one. The last rank passes nothing on.
  absl::Status Forward(std::string* bytes) {
    const auto passed_on = [this](absl::string_view block) {
      return Rank(1) == 0 ? absl::string_view() : block;
    };
    uint64_t size = 0;
    DING_RETURN_IF_ERROR(Exchange("", &size, 1));
    absl::string_view before = Bytes(&size, 1);
    bytes->clear();
    // The memory grows with what has arrived, whatever size the rank before has named.
    while (bytes->size() < size) {
      block_.resize(std::min<uint64_t>(kBlock, size - bytes->size()));
      DING_RETURN_IF_ERROR(Exchange(passed_on(before), block_.data(), block_.size()));
      bytes->append(block_);
      before = absl::string_view(*bytes).substr(bytes->size() - block_.size());
    }
    return Exchange(passed_on(before), block_.data(), 0);
  }

  // Sends `out` to the next rank while it receives `size` values from the rank before.
  template <typename T>
  absl::Status Exchange(absl::string_view out, T* in, size_t size) {
    char* to = reinterpret_cast<char*>(in);
    return Move(
        out, size * sizeof(T), [&] { return to; }, [&](size_t got) { to += got; });
  }

  // As Exchange(), but adds what it receives to `sums`.
  template <typename T>
  absl::Status ExchangeAndAdd(absl::string_view out, absl::Span<T> sums) {
    block_.resize(kBlock);
    T* to = sums.data();
    size_t begun = 0;  // bytes of a value that has arrived in part
    return Move(
        out, sums.size() * sizeof(T), [&] { return block_.data() + begun; },
        [&](size_t got) {
          const size_t whole = (begun + got) / sizeof(T);
          for (size_t i = 0; i < whole; ++i) {
            T value;
            std::memcpy(&value, block_.data() + i * sizeof(T), sizeof(T));
            to[i] += value;
          }
          to += whole;
          begun = begun + got - whole * sizeof(T);
          std::memmove(block_.data(), block_.data() + whole * sizeof(T), begun);
        });
  }

  // Sends `out`, and receives `size` bytes in pieces: each into room(), after which took(bytes) is
  // called.
  template <typename Room, typename Took>
  absl::Status Move(absl::string_view out, size_t size, const Room& room, const Took& took) {
    while (!out.empty() || size > 0) {
      bool moved = false;
      if (!out.empty()) {
        const ssize_t sent = send(next_.fd(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && !WouldWait()) return Lost(Rank(1));
        if (sent > 0) out.remove_prefix(static_cast<size_t>(sent));
        moved = sent > 0;
      }
      if (size > 0) {
        const ssize_t got = recv(previous_.fd(), room(), std::min(size, kBlock / 2), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && !WouldWait())) return Lost(Rank(-1));
        if (got > 0) {
          size -= static_cast<size_t>(got);
          took(static_cast<size_t>(got));
          moved = true;
        }
      }
      if (!moved) DING_RETURN_IF_ERROR(Wait(!out.empty(), size > 0));
    }
    return absl::OkStatus();
  }

  absl::Status Wait(bool sends, bool receives) {
    std::vector<pollfd> fds;
    if (sends) fds.push_back({next_.fd(), POLLOUT, 0});
    if (receives) fds.push_back({previous_.fd(), POLLIN, 0});
    if (Poll(&fds, deadline_)) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat("rank ", receives ? Rank(-1) : Rank(1),
                                                    " did not finish the call within ",
                                                    absl::FormatDuration(options_.timeout)));
  }

  static absl::Status Lost(int rank) {
    return absl::UnavailableError(
        absl::StrCat("rank ", rank, " is gone, or has itself lost a rank"));
  }

  const AllReduceOptions options_;
  const Socket next_;
  const Socket previous_;
  std::atomic<bool> aborted_{false};
  absl::Status dead_;
  Deadline deadline_ = Deadline::Never();  // of the call
  std::string block_;                      // working memory, kept between calls
};

// The connections of a rank to the next one and from the one before.
struct Neighbours {
  Socket next;
  Socket previous;
};

absl::StatusOr<Neighbours> FindNeighbours(const AllReduceOptions& options, Rendezvous* rendezvous,
                                          const Deadline& deadline) {
  const auto key = [](int rank) { return absl::StrCat("tcp/", rank); };
  const int next = (options.rank + 1) % options.world_size;
  const int previous = (options.rank + options.world_size - 1) % options.world_size;
  DING_ASSIGN_OR_RETURN(const Listener listener, Listen(options.host));
  DING_RETURN_IF_ERROR(rendezvous->Set(key(options.rank), listener.text));
  DING_ASSIGN_OR_RETURN(const std::string where, rendezvous->Get(key(next), deadline.Left()));
  absl::StatusOr<Socket> to_next = ConnectTo(where, deadline);
  DING_RETURN_IF_ERROR(Annotate(to_next.status(), absl::StrCat("rank ", next)));
  absl::StatusOr<Socket> from_previous = AcceptFrom(listener, deadline);
  DING_RETURN_IF_ERROR(Annotate(from_previous.status(), absl::StrCat("rank ", previous)));
  return Neighbours{*std::move(to_next), *std::move(from_previous)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReduce>> ConnectTcp(const AllReduceOptions& options,
                                                      Rendezvous* rendezvous) {
  DING_RETURN_IF_ERROR(CheckAllReduceOptions(options));
  absl::StatusOr<Neighbours> found =
      options.world_size == 1
          ? Neighbours()
          : FindNeighbours(options, rendezvous, Deadline::After(options.timeout));
  DING_RETURN_IF_ERROR(
      Annotate(found.status(),
               absl::StrCat("all-reduce group '", options.group, "': rank ", options.rank, " of ",
                            options.world_size, " at ", options.host, " does not connect")));
  auto made =
      std::make_unique<TcpAllReduce>(options, std::move(found->next), std::move(found->previous));
  // Returns when all ranks are connected.
  double all_are_there = 1;
  DING_RETURN_IF_ERROR(made->Sum(absl::MakeSpan(&all_are_there, 1)));
  return made;
}

}  // namespace ding
