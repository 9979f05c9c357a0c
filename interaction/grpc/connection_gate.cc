#include "ding_worker/interaction/grpc/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <iterator>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {
namespace {

constexpr int64_t kLeastReserve = 64;
constexpr int64_t kMaxNewcomers = 256;
constexpr int64_t kMaxProven = 4096;
// Peers that the kernel keeps until they are accepted.
constexpr int kBacklog = 4096;
// As many connections are accepted before others are looked at.
constexpr int kAcceptAtOnce = 64;
// Between looks: at what connections do, at which of them have ended, at whether one of them that
// must go has gone. And between two attempts to accept when the machine is short of something.
constexpr absl::Duration kTick = absl::Milliseconds(10);
constexpr absl::Duration kSweep = absl::Milliseconds(100);
constexpr absl::Duration kWhileFull = absl::Milliseconds(2);
constexpr absl::Duration kPause = absl::Milliseconds(10);
// Between two connections of an address that has flooded us, for some time after that.
constexpr absl::Duration kTurn = absl::Milliseconds(50);
constexpr absl::Duration kFloodMemory = absl::Seconds(2);
// From a flood until the memory that it took is given back to the machine.
constexpr absl::Duration kTrim = absl::Seconds(5);
// When there is nothing to look at.
constexpr absl::Duration kIdle = absl::Seconds(1);
// What the kernel receives ahead of gRPC, which reads all that is there and begins all calls in it
// before it does anything else. For a connection that is not proven, for one of a peer that nobody
// knows, and for one of a peer with a token.
constexpr int kUnprovenBytes = 4 << 10;
constexpr int kUnknownBytes = 64 << 10;
constexpr int kKnownBytes = 1 << 20;
// What a connection may send before it is proven: a handshake with certificates, settings, one call.
constexpr int64_t kMostUnproven = 64 << 10;
// How long the kernel waits for an answer to what was sent.
constexpr absl::Duration kUserTimeout = absl::Seconds(20);

// A socket's other end.
struct Remote {
  std::string peer;     // "127.0.0.1:41234", "[::1]:41234"
  std::string address;  // whose connections are counted together: all of an IPv6 network of 64 bits
};

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

// Ends a connection that others hold, too, and throws away what was received and not read yet.
void CutSocket(int fd) {
  sockaddr nobody = {};
  nobody.sa_family = AF_UNSPEC;
  if (connect(fd, &nobody, sizeof(nobody)) != 0) shutdown(fd, SHUT_RDWR);
}

// The bytes that the peer has sent since it connected.
int64_t ReceivedBytes(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return static_cast<int64_t>(info.tcpi_bytes_received);
}

// Lets the kernel receive `bytes` ahead, as far as it allows that.
void SetReceiveBytes(int fd, int bytes) {
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

// Closes without waiting for what the peer has to say.
void CloseAtOnce(int fd) {
  const linger none = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  close(fd);
}

void CloseIfOpen(int* fd) {
  if (*fd >= 0) close(std::exchange(*fd, -1));
}

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

absl::Status CannotListen(const LinkAddress& endpoint, int error) {
  const std::string message =
      absl::StrCat("cannot listen on ", endpoint.ToString(), ": ", std::strerror(error));
  return error == EADDRINUSE ? absl::AlreadyExistsError(message) : absl::UnavailableError(message);
}

// A listening socket at `endpoint`, which `family` can express; else errno is set.
int ListenAt(const LinkAddress& endpoint, int family) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  absl::Cleanup close_fd = [fd] {
    const int error = errno;
    close(fd);
    errno = error;
  };
  const int on = 1;
  const int off = 0;
  const int received = kUnprovenBytes;
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
  // Connections of a listener that is gone do not matter. Those that are accepted inherit the rest.
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &received, sizeof(received)) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout)) != 0 ||
      bind(fd, reinterpret_cast<const sockaddr*>(&storage), size) != 0 ||
      listen(fd, kBacklog) != 0) {
    return -1;
  }
  std::move(close_fd).Cancel();
  return fd;
}

int PortOf(int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

// The key that most of `items` have.
template <typename Items, typename KeyOf>
std::string MostFrequent(const Items& items, KeyOf key_of) {
  std::unordered_map<std::string, int64_t> counts;
  for (const auto& item : items) {
    const std::string* const key = key_of(item);
    if (key != nullptr) ++counts[*key];
  }
  const auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  return most == counts.end() ? "" : most->first;
}

}  // namespace

ConnectionBounds ConnectionBounds::Within(int64_t descriptor_limit) {
  const int64_t reserve =
      std::min(std::max(kLeastReserve, descriptor_limit / 4), descriptor_limit / 2);
  const int64_t left = descriptor_limit - reserve;
  const int64_t newcomers = std::clamp<int64_t>(left / 2, 2, kMaxNewcomers);
  ConnectionBounds bounds;
  bounds.silent = newcomers / 2;
  bounds.unproven = newcomers / 2;
  bounds.proven = std::clamp<int64_t>(left - newcomers, 1, kMaxProven);
  return bounds;
}

bool CallAllowance::Take(int64_t calls, int64_t nanos) {
  const double grown = 1e-9 * static_cast<double>(nanos - last_nanos_) * kPerSecond;
  left_ = std::min<double>(kAtOnce, left_ + grown) - static_cast<double>(calls);
  last_nanos_ = nanos;
  return left_ >= 0;
}

class ConnectionGate::Impl {
 public:
  Impl(int listen_fd, int wake_fd, int spare_fd, const ConnectionBounds& bounds)
      : bounds_(bounds),
        port_(PortOf(listen_fd)),
        wake_fd_(wake_fd),
        listen_fd_(listen_fd),
        spare_fd_(spare_fd) {}

  ~Impl() {
    StopListening();
    {
      MutexLock lock(&mutex_);
      stop_ = true;
    }
    Wake();
    if (thread_.joinable()) thread_.join();
    CloseIfOpen(&spare_fd_);
    close(wake_fd_);
  }

  absl::Status Start(Backend backend) {
    backend_ = std::move(backend);
    DING_ASSIGN_OR_RETURN(thread_, StartThread("accepting connections", [this] { Run(); }));
    return absl::OkStatus();
  }

  void StopListening() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!thread_.joinable()) return CloseListener();
    MutexLock lock(&mutex_);
    stop_listening_ = true;
    Wake();
    // Not for long: the thread has nothing else to do.
    while (listening_) changed_.WaitFor(&mutex_, kIdle);
  }

  int port() const { return port_; }

  bool CountCall(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::string report;
    {
      MutexLock lock(&mutex_);
      const auto found = taken_.find(peer);
      // A connection whose end is known already; what it had sent is still being read.
      if (found == taken_.end() || found->second.cut) return false;
      if (found->second.calls.Take(1, Nanos())) return true;
      report = CutFlood(peer, &found->second);
    }
    Report(report);
    return false;
  }

  absl::Status LetIn(const std::string& peer, bool known) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::string report;
    {
      MutexLock lock(&mutex_);
      const auto found = taken_.find(peer);
      if (found == taken_.end() || found->second.cut) {
        return absl::UnavailableError("the connection was cut");
      }
      if (!found->second.proven) return Prove(&found->second, known);
      report = CutFlood(peer, &found->second);
    }
    Report(report);
    return absl::FailedPreconditionError("a connection has one call");
  }

 private:
  // A socket that the gate still owns.
  struct Waiting {
    int fd;
    Remote remote;
    Timer since;
    bool spoke;  // and waits for an unproven connection to go
  };
  // One that the backend owns. The number may be another file's by now: the inode tells.
  struct Taken {
    Taken(int fd, ino_t inode, const Waiting& from)
        : fd(fd), inode(inode), address(from.remote.address), since(from.since) {}
    bool ended() const {
      struct stat now;
      return fstat(fd, &now) != 0 || now.st_ino != inode || !S_ISSOCK(now.st_mode);
    }

    int fd;
    ino_t inode;
    std::string address;
    Timer since;
    bool proven = false;
    bool cut = false;
    CallAllowance calls;    // those that have arrived
    CallAllowance streams;  // all that were begun
    int64_t begun = 0;
  };

  // An address of which a connection was cut for its calls.
  struct Flooder {
    Timer since_flood;
    Timer since_turn;  // since one of its connections was handed over
  };

  int64_t Nanos() const { return clock_->MonotonicNanos(); }
  void Wake() const {
    const uint64_t one = 1;
    // Fails only if it is awake already.
    [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
  }
  void Report(absl::string_view what) const {
    if (!what.empty()) backend_.report(what);
  }

  void Run() {
    std::vector<pollfd> polled;
    while (true) {
      absl::Duration timeout;
      {
        MutexLock lock(&mutex_);
        if (stop_) return;
        timeout = taken_.empty() && !trim_due_ ? kIdle : kTick;
      }
      CloseListenerIfAsked();
      if (!waiting_.empty()) timeout = std::min(timeout, kTick);
      const bool paused = accept_failed_ && since_accept_failed_.Elapsed() < kPause;
      if (paused) timeout = std::min(timeout, kPause);
      if (AnybodySpoke()) timeout = std::min(timeout, kWhileFull);
      polled.clear();
      polled.push_back({wake_fd_, POLLIN, 0});
      polled.push_back({paused ? -1 : listen_fd_, POLLIN, 0});
      for (const Waiting& each : waiting_) polled.push_back({each.spoke ? -1 : each.fd, POLLIN, 0});
      poll(polled.data(), polled.size(), static_cast<int>(absl::ToInt64Milliseconds(timeout)));
      if (polled[0].revents != 0) {
        uint64_t count;
        [[maybe_unused]] const ssize_t size = read(wake_fd_, &count, sizeof(count));
      }
      for (size_t i = polled.size(); i > 2; --i) {
        if (polled[i - 1].revents != 0) HearOut(i - 3);
      }
      if (polled[1].revents != 0) AcceptSome();
      CloseLate();
      const bool full = HandOver();
      if (full || since_sweep_.Elapsed() >= kSweep) Sweep();
      CountStreams();
      GiveMemoryBack();
    }
  }

  void CloseListenerIfAsked() ABSL_LOCKS_EXCLUDED(mutex_) {
    bool asked;
    {
      MutexLock lock(&mutex_);
      asked = stop_listening_ && listening_;
    }
    if (asked) CloseListener();
  }

  void CloseListener() ABSL_LOCKS_EXCLUDED(mutex_) {
    CloseIfOpen(&listen_fd_);
    for (const Waiting& each : waiting_) CloseAtOnce(each.fd);
    waiting_.clear();
    MutexLock lock(&mutex_);
    for (auto& [peer, taken] : taken_) {
      if (!taken.proven) Cut(peer, &taken, "the listener was closed");
    }
    listening_ = false;
    changed_.SignalAll();
  }

  // ---- accepting

  void AcceptSome() {
    for (int i = 0; i < kAcceptAtOnce; ++i) {
      sockaddr_storage storage = {};
      socklen_t size = sizeof(storage);
      const int fd = accept4(listen_fd_, reinterpret_cast<sockaddr*>(&storage), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return SurviveAcceptError(errno);
      waiting_.push_back({fd, RemoteOf(storage), Timer(clock_), false});
      if (static_cast<int64_t>(waiting_.size()) > bounds_.silent) CloseOneWaiting();
    }
  }

  void SurviveAcceptError(int error) {
    if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return;
    if (error == EMFILE || error == ENFILE) {
      // The peer is told now, in the place of waiting for ever.
      CloseIfOpen(&spare_fd_);
      const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) CloseAtOnce(fd);
      spare_fd_ = OpenSpare();
    }
    accept_failed_ = true;
    since_accept_failed_ = Timer(clock_);
    Report(absl::StrCat("a connection could not be accepted: ", std::strerror(error)));
  }

  void CloseOneWaiting() {
    const std::string address =
        MostFrequent(waiting_, [](const Waiting& each) { return &each.remote.address; });
    std::vector<size_t> spoke;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i].remote.address != address) continue;
      if (!waiting_[i].spoke) return CloseWaiting(i, "too many connections say nothing");
      spoke.push_back(i);
    }
    CloseWaiting(spoke[Choose(spoke.size())], "too many connections wait for their turn");
  }

  void CloseLate() {
    while (!waiting_.empty() && waiting_.front().since.Elapsed() >= kSpeakWithin) {
      CloseWaiting(0, waiting_.front().spoke ? "too many connections wait for their turn"
                                             : "it says nothing");
    }
  }

  void CloseWaiting(size_t index, absl::string_view why) {
    const auto closed = waiting_.begin() + static_cast<std::ptrdiff_t>(index);
    Report(absl::StrCat("the connection of ", closed->remote.peer, " was refused: ", why));
    CloseAtOnce(closed->fd);
    waiting_.erase(closed);
  }

  // There is something to be read, or the peer has gone.
  void HearOut(size_t index) {
    char byte;
    const ssize_t size = recv(waiting_[index].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (size > 0) {
      waiting_[index].spoke = true;
    } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
      close(waiting_[index].fd);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }

  bool AnybodySpoke() const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [](const Waiting& each) { return each.spoke; });
  }

  // ---- connections of the backend

  // Gives it those that have spoken. True: there are more than there is room for.
  bool HandOver() ABSL_LOCKS_EXCLUDED(mutex_) {
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      if (!each->spoke) {
        ++each;
        continue;
      }
      const int fd = each->fd;
      struct stat status = {};
      fstat(fd, &status);
      bool known = false;
      {
        MutexLock lock(&mutex_);
        if (CountUnproven() >= bounds_.unproven) return true;
        if (!IsItsTurn(each->remote.address)) {
          ++each;
          continue;
        }
        const auto found = taken_.find(each->remote.peer);
        // The same port of a peer can be connected twice only to two addresses of this machine.
        known = found != taken_.end() && !found->second.ended();
        if (!known) {
          taken_.insert_or_assign(each->remote.peer, Taken(fd, status.st_ino, *each));
        }
      }
      each = waiting_.erase(each);
      if (known) {
        CloseAtOnce(fd);
      } else {
        backend_.take(fd);
      }
    }
    return false;
  }

  // An address that has flooded us has its connections handed over one after another, with pauses.
  bool IsItsTurn(const std::string& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = flooders_.find(address);
    if (found == flooders_.end()) return true;
    if (found->second.since_turn.Elapsed() < kTurn) return false;
    found->second.since_turn = Timer(clock_);
    return true;
  }

  // Forgets connections that have ended, cuts those that are late, and some for whom others wait.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex_) {
    since_sweep_ = Timer(clock_);
    const auto spoke = std::count_if(waiting_.begin(), waiting_.end(),
                                     [](const Waiting& each) { return each.spoke; });
    std::vector<std::string> reports;
    {
      MutexLock lock(&mutex_);
      int64_t going = 0;
      for (auto each = taken_.begin(); each != taken_.end();) {
        Taken& taken = each->second;
        if (taken.ended()) {
          each = taken_.erase(each);
          continue;
        }
        if (!taken.proven && !taken.cut && taken.since.Elapsed() >= kProveWithin) {
          reports.push_back(Cut(each->first, &taken, "it makes no call that could be let in"));
        } else if (!taken.proven && !taken.cut && ReceivedBytes(taken.fd) > kMostUnproven) {
          reports.push_back(
              CutFlood(each->first, &taken, "it says too much before a call is let in"));
        }
        if (!taken.proven && taken.cut) ++going;
        ++each;
      }
      for (auto each = flooders_.begin(); each != flooders_.end();) {
        each = each->second.since_flood.Elapsed() >= kFloodMemory ? flooders_.erase(each)
                                                                  : std::next(each);
      }
      const int64_t wanted = std::min<int64_t>(spoke, bounds_.unproven / 4 + 1);
      if (CountUnproven() >= bounds_.unproven) {
        for (; going < wanted; ++going) reports.push_back(CutOneUnproven());
      }
    }
    for (const std::string& report : reports) Report(report);
  }

  std::string CutOneUnproven() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto may_go = [](const Taken& taken) { return !taken.proven && !taken.cut; };
    const std::string address = MostFrequent(taken_, [&](const auto& each) {
      return may_go(each.second) ? &each.second.address : nullptr;
    });
    std::vector<std::pair<const std::string, Taken>*> victims;
    for (auto& each : taken_) {
      if (may_go(each.second) && each.second.address == address) victims.push_back(&each);
    }
    if (victims.empty()) return "";
    auto& [peer, taken] = *victims[Choose(victims.size())];
    return Cut(peer, &taken, "too many connections have not shown who they are");
  }

  // Calls that are reset at once never arrive anywhere else.
  void CountStreams() ABSL_LOCKS_EXCLUDED(mutex_) {
    // At most half of the time.
    if (since_count_.Elapsed() < std::max(kTick, counting_took_)) return;
    const Timer timer(clock_);
    std::vector<std::string> reports;
    for (const BegunStreams& each : backend_.begun_streams()) {
      MutexLock lock(&mutex_);
      const auto found = taken_.find(each.peer);
      if (found == taken_.end()) continue;
      Taken& taken = found->second;
      const int64_t more = each.count - std::exchange(taken.begun, each.count);
      if (!taken.cut && !taken.streams.Take(more, Nanos())) {
        reports.push_back(CutFlood(each.peer, &taken));
      }
    }
    for (const std::string& report : reports) Report(report);
    counting_took_ = timer.Elapsed();
    since_count_ = Timer(clock_);
  }

  // The allocator would keep what a flood of calls took.
  void GiveMemoryBack() {
    if (!flooded_.exchange(false)) {
      if (!trim_due_ || since_flood_.Elapsed() < kTrim) return;
      trim_due_ = false;
#ifdef __GLIBC__
      malloc_trim(0);
#endif
    } else if (!trim_due_) {
      trim_due_ = true;
      since_flood_ = Timer(clock_);
    }
  }

  absl::Status Prove(Taken* taken, bool known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t proven = static_cast<int64_t>(taken_.size()) - CountUnproven();
    if (proven >= bounds_.proven) {
      return absl::ResourceExhaustedError(
          absl::StrCat("it has ", proven,
                       " connections, as many as its limit of open files allows (ulimit -n)"));
    }
    taken->proven = true;
    if (!taken->ended()) SetReceiveBytes(taken->fd, known ? kKnownBytes : kUnknownBytes);
    return absl::OkStatus();
  }

  // Returns what to report.
  std::string Cut(const std::string& peer, Taken* taken, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    taken->cut = true;
    if (!taken->ended()) CutSocket(taken->fd);
    return absl::StrCat("the connection of ", peer, " was cut: ", why);
  }

  std::string CutFlood(const std::string& peer, Taken* taken,
                       absl::string_view why = "it makes too many calls")
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    flooded_ = true;
    Flooder& flooder =
        flooders_.try_emplace(taken->address, Flooder{Timer(clock_), Timer(clock_)}).first->second;
    flooder.since_flood = Timer(clock_);
    return Cut(peer, taken, why);
  }

  int64_t CountUnproven() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::count_if(taken_.begin(), taken_.end(),
                         [](const auto& each) { return !each.second.proven; });
  }

  size_t Choose(size_t count) { return static_cast<size_t>(victims_.UniformInt(count)); }

  const ConnectionBounds bounds_;
  const Clock* const clock_ = Clock::Real();
  const int port_;
  const int wake_fd_;
  Backend backend_;
  std::thread thread_;

  // The members below belong to the gate's thread while it runs.
  int listen_fd_;
  int spare_fd_;                 // closed to accept a connection when there is no other descriptor
  std::deque<Waiting> waiting_;  // oldest first
  bool accept_failed_ = false;
  Timer since_accept_failed_{clock_};
  Timer since_sweep_{clock_};
  Timer since_count_{clock_};
  absl::Duration counting_took_;
  bool trim_due_ = false;
  Timer since_flood_{clock_};
  Rng victims_{0, Rng::Purpose("connection_gate/victims")};

  std::atomic<bool> flooded_{false};  // a connection was cut for its calls
  Mutex mutex_;
  CondVar changed_;  // listening_
  bool listening_ ABSL_GUARDED_BY(mutex_) = true;
  bool stop_listening_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_map<std::string, Taken> taken_ ABSL_GUARDED_BY(mutex_);       // by peer
  std::unordered_map<std::string, Flooder> flooders_ ABSL_GUARDED_BY(mutex_);  // by address
};

ConnectionGate::ConnectionGate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ConnectionGate::~ConnectionGate() = default;

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(
    const LinkAddress& endpoint, const ConnectionBounds& bounds) {
  const bool v4 = endpoint.kind == LinkAddress::Kind::kV4;
  const bool both = endpoint.host == "0.0.0.0";
  int listen_fd = ListenAt(endpoint, v4 && !both ? AF_INET : AF_INET6);
  // A machine may have no IPv6.
  if (listen_fd < 0 && both && errno != EADDRINUSE) listen_fd = ListenAt(endpoint, AF_INET);
  if (listen_fd < 0) return CannotListen(endpoint, errno);
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int spare_fd = wake_fd < 0 ? -1 : OpenSpare();
  if (spare_fd < 0) {
    const int error = errno;
    close(listen_fd);
    if (wake_fd >= 0) close(wake_fd);
    return CannotListen(endpoint, error);
  }
  return absl::WrapUnique(
      new ConnectionGate(std::make_unique<Impl>(listen_fd, wake_fd, spare_fd, bounds)));
}

absl::Status ConnectionGate::Start(Backend backend) { return impl_->Start(std::move(backend)); }
void ConnectionGate::StopListening() { impl_->StopListening(); }
int ConnectionGate::port() const { return impl_->port(); }
bool ConnectionGate::CountCall(const std::string& peer) { return impl_->CountCall(peer); }
absl::Status ConnectionGate::LetIn(const std::string& peer, bool known) {
  return impl_->LetIn(peer, known);
}

}  // namespace ding
