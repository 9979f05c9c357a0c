#include "ding_worker/adapter/gloo/gloo_all_reduce.h"

// libtorch's build has c10d with Gloo, but its headers declare it only if the code that includes
// them defines this.
#define USE_C10D_GLOO 1
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "gloo/context.h"
#include "gloo/transport/pair.h"
#include "gloo/transport/tcp/address.h"
#include "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"
#include "torch/csrc/distributed/c10d/Store.hpp"

// Gloo asks for the name of a connection's other end to say that the connection broke while it was
// being accepted. It asks in a thread of its own, and the library's function throws if the other
// end is gone: whoever connects to the port and leaves at once would end the process. A definition
// in the program takes precedence over that of a shared library.
gloo::transport::tcp::Address gloo::transport::tcp::Address::fromPeerName(int fd) {
  sockaddr_storage name = {};
  name.ss_family = AF_INET;  // 0.0.0.0:0 if the other end is gone
  socklen_t size = sizeof(name);
  getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size);
  return Address(name);
}

namespace ding {
namespace {

// The first line of an exception's text: libtorch appends a stack trace.
std::string FirstLine(const char* what) {
  const std::string text(what);
  return text.substr(0, text.find('\n'));
}

// While it lives, this thread and the threads that it starts block SIGPIPE. Gloo's threads write to
// ranks that may be gone, and report that by themselves; without the block, the signal would end
// the process. The other threads of the program, which may rely on SIGPIPE, are left alone.
class StartsThreadsWithoutSigpipe {
 public:
  StartsThreadsWithoutSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  StartsThreadsWithoutSigpipe(const StartsThreadsWithoutSigpipe&) = delete;
  StartsThreadsWithoutSigpipe& operator=(const StartsThreadsWithoutSigpipe&) = delete;
  ~StartsThreadsWithoutSigpipe() {
    const timespec no_wait = {};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&sigpipe_, nullptr, &no_wait);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t sigpipe_;
  sigset_t before_;
};

// The store in which Gloo puts and looks up each rank's addresses while it connects.
class RendezvousStore : public c10d::Store {
 public:
  RendezvousStore(Rendezvous* rendezvous, absl::Duration timeout)
      : c10d::Store(absl::ToChronoMilliseconds(timeout)), rendezvous_(rendezvous) {}

  // Ends the use of the rendezvous: every later call throws.
  void Connected() { rendezvous_ = nullptr; }

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    const absl::Status status = Use()->Set(key, std::string(value.begin(), value.end()));
    if (!status.ok()) throw std::runtime_error(std::string(status.message()));
  }
  std::vector<uint8_t> get(const std::string& key) override { return Get(key, timeout_); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  // Gloo waits longer than our timeout, so the smaller one of both counts.
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    for (const std::string& key : keys) Get(key, std::min(timeout, timeout_));
  }

  bool check(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) {
      if (!Use()->Get(key, absl::ZeroDuration()).ok()) return false;
    }
    return true;
  }
  // Gloo uses none of these.
  int64_t add(const std::string& /*key*/, int64_t /*value*/) override { throw Unsupported(); }
  bool deleteKey(const std::string& /*key*/) override { throw Unsupported(); }
  int64_t getNumKeys() override { throw Unsupported(); }

 private:
  static std::logic_error Unsupported() {
    return std::logic_error("a rendezvous of learners supports set, get, wait and check only");
  }
  Rendezvous* Use() {
    if (rendezvous_ == nullptr) throw std::logic_error("the ranks are connected already");
    return rendezvous_;
  }
  std::vector<uint8_t> Get(const std::string& key, std::chrono::milliseconds timeout) {
    const absl::StatusOr<std::string> value = Use()->Get(key, absl::FromChrono(timeout));
    if (!value.ok()) throw std::runtime_error(std::string(value.status().message()));
    return {value->begin(), value->end()};
  }

  Rendezvous* rendezvous_;
};

int PortOf(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The port of this end of a connection; 0 if the descriptor is none.
int PortOfConnection(int fd) {
  sockaddr_storage own = {};
  sockaddr_storage other = {};
  socklen_t own_size = sizeof(own);
  socklen_t other_size = sizeof(other);
  const bool connected = getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
                         (own.ss_family == AF_INET || own.ss_family == AF_INET6) &&
                         getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_size) == 0;
  return connected ? PortOf(own) : 0;
}

// A Gloo group whose connections can be ended while an operation waits for one of them. When Gloo
// closes a connection itself, it takes the socket away without an error, and what waits for it at
// this end waits until the timeout. So this class keeps a second descriptor of each socket, and
// shuts the sockets down: then Gloo fails at both ends.
class ClosableGroup : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;
  ~ClosableGroup() override {
    for (const int socket : sockets_) close(socket);
  }

  // Finds the sockets, which Gloo does not show, by their ports: each connection has one of its own
  // at this end. A connection that the other rank has left already is not found.
  void FindSockets() {
    const std::set<int> ports = Ports();
    std::vector<int> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
      int fd = -1;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &fd)) continue;
      if (ports.count(PortOfConnection(fd)) > 0) found.push_back(fd);
    }
    for (const int fd : found) {
      const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
      if (second >= 0) sockets_.push_back(second);
    }
  }

  void CloseConnections() {
    // It fails if the other end is gone, which Gloo notices by itself.
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
    if (static_cast<int>(sockets_.size()) == getSize() - 1) return;
    for (const auto& context : contexts_) context->closeConnections();
  }

 private:
  std::set<int> Ports() const {
    std::set<int> ports;
    for (const auto& context : contexts_) {
      for (int rank = 0; rank < context->size; ++rank) {
        if (rank == context->rank) continue;
        const auto* const address =
            dynamic_cast<const gloo::transport::tcp::Address*>(&context->getPair(rank)->address());
        if (address != nullptr) ports.insert(PortOf(address->getSockaddr()));
      }
    }
    return ports;
  }

  std::vector<int> sockets_;
};

class GlooAllReduce : public AllReduce {
 public:
  GlooAllReduce(const AllReduceOptions& options, c10::intrusive_ptr<ClosableGroup> group)
      : options_(options), group_(std::move(group)) {}
  ~GlooAllReduce() override { Abort(); }

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }

  absl::Status Sum(absl::Span<float> values) override { return SumOf(values, at::kFloat); }
  absl::Status Sum(absl::Span<double> values) override { return SumOf(values, at::kDouble); }

  absl::Status Broadcast(std::string* bytes) override {
    double size = static_cast<double>(bytes->size());
    DING_RETURN_IF_ERROR(Run([&] {
      std::vector<at::Tensor> tensors = {at::from_blob(&size, {1}, at::kDouble)};
      return group_->broadcast(tensors);
    }));
    if (size == 0) {
      bytes->clear();
      return absl::OkStatus();
    }
    bytes->resize(static_cast<size_t>(size));
    return Run([&] {
      std::vector<at::Tensor> tensors = {
          at::from_blob(bytes->data(), {static_cast<int64_t>(bytes->size())}, at::kByte)};
      return group_->broadcast(tensors);
    });
  }

  void Abort() override {
    if (!aborted_.exchange(true)) group_->CloseConnections();
  }

 private:
  template <typename T>
  absl::Status SumOf(absl::Span<T> values, at::ScalarType type) {
    if (options_.world_size == 1 || values.empty()) return dead_;
    return Run([&] {
      std::vector<at::Tensor> tensors = {
          at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, type)};
      return group_->allreduce(tensors);
    });
  }

  // Runs one operation and waits for its end. An exception ends the group.
  template <typename Start>
  absl::Status Run(const Start& start) {
    if (!dead_.ok()) return dead_;
    if (aborted_.load()) return dead_ = absl::CancelledError("this learner has left the group");
    const Deadline deadline = Deadline::After(options_.timeout);
    try {
      start()->wait();
      return absl::OkStatus();
    } catch (const std::exception& e) {
      const std::string what =
          absl::StrCat("all-reduce group '", options_.group, "', rank ", options_.rank, " of ",
                       options_.world_size, ": ", FirstLine(e.what()));
      if (aborted_.load()) {
        dead_ = absl::CancelledError(what);
      } else if (deadline.Passed()) {
        dead_ = absl::DeadlineExceededError(what);
      } else {
        dead_ = absl::UnavailableError(what);
      }
    }
    // Closes the connections, so that the others stop waiting for this rank, too.
    Abort();
    return dead_;
  }

  const AllReduceOptions options_;
  const c10::intrusive_ptr<ClosableGroup> group_;
  std::atomic<bool> aborted_{false};
  absl::Status dead_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AllReduce>> ConnectGloo(const AllReduceOptions& options,
                                                       Rendezvous* rendezvous) {
  DING_RETURN_IF_ERROR(CheckAllReduceOptions(options));
  const Deadline deadline = Deadline::After(options.timeout);
  const StartsThreadsWithoutSigpipe without_sigpipe;
  try {
    auto group_options =
        c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(options.timeout));
    // One thread is enough, because there is only one operation at a time.
    group_options->threads = 1;
    group_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.host));
    const auto store = c10::make_intrusive<RendezvousStore>(rendezvous, options.timeout);
    auto group =
        c10::make_intrusive<ClosableGroup>(store, options.rank, options.world_size, group_options);
    store->Connected();
    ClosableGroup* const connected = group.get();
    auto made = std::make_unique<GlooAllReduce>(options, std::move(group));
    // A rank that leaves before another one has accepted its connection makes that one wait until
    // the timeout. So no rank leaves before all have accepted their connections; this sum waits for
    // that.
    double all_are_there = 1;
    DING_RETURN_IF_ERROR(made->Sum(absl::MakeSpan(&all_are_there, 1)));
    connected->FindSockets();
    return made;
  } catch (const std::exception& e) {
    const std::string what = absl::StrCat("all-reduce group '", options.group, "': rank ",
                                          options.rank, " of ", options.world_size, " at ",
                                          options.host, " does not connect: ", FirstLine(e.what()));
    if (deadline.Passed()) return absl::DeadlineExceededError(what);
    return absl::UnavailableError(what);
  }
}

}  // namespace ding
