#include "ding_worker/interaction/grpc/connection_gate.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "ding_worker/interaction/grpc/taken_connections.h"

namespace ding {
namespace {

// The number of connections that are accepted before others are looked at.
constexpr int kAcceptAtOnce = 64;
// How often the gate looks at what connections do, and at which of them have ended.
constexpr absl::Duration kTick = absl::Milliseconds(10);
constexpr absl::Duration kSweep = absl::Milliseconds(100);
// How often it looks whether a connection that must go has gone, while others wait for its place.
constexpr absl::Duration kWhileFull = absl::Milliseconds(2);
// The time between two attempts to accept when the machine is short of descriptors or memory.
constexpr absl::Duration kPause = absl::Milliseconds(10);
// The time from a flood until the memory that it took is given back to the machine.
constexpr absl::Duration kTrim = absl::Seconds(5);
// How often the gate wakes when there is nothing to look at.
constexpr absl::Duration kIdle = absl::Seconds(1);

// Opens a descriptor that is there only to be closed when accept() needs one.
int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

class ConnectionGate::Impl {
 public:
  Impl(int listen_fd, int wake_fd, int spare_fd, const ConnectionBounds& bounds)
      : bounds_(bounds),
        port_(PortOf(listen_fd)),
        wake_fd_(wake_fd),
        listen_fd_(listen_fd),
        spare_fd_(spare_fd),
        taken_(bounds, kProveWithin, clock_) {}

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
      if (taken_.CountCall(peer, &report)) return true;
    }
    Report(report);
    return false;
  }

  absl::Status LetIn(const std::string& peer, bool known) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::string report;
    absl::Status status;
    {
      MutexLock lock(&mutex_);
      status = taken_.LetIn(peer, known, &report);
    }
    Report(report);
    return status;
  }

 private:
  // A socket that the gate still owns.
  struct Waiting {
    int fd;
    Remote remote;
    Timer since;
    bool spoke;  // and waits for its turn, or for an unproven connection to go
  };

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
    taken_.CutUnproven("the listener was closed");
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
      // The peer learns at once that it is refused, instead of waiting for ever.
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
    std::vector<VictimCandidate> candidates;
    for (const Waiting& each : waiting_) candidates.push_back({each.remote.address, !each.spoke});
    const size_t index = ChooseVictim(candidates, &victims_);
    CloseWaiting(index, waiting_[index].spoke ? "too many connections wait for their turn"
                                              : "too many connections say nothing");
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

  // Called when a socket can be read: the peer has sent something, or has gone.
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

  // Gives the backend those that have spoken. Returns true if there are more than there is room
  // for.
  bool HandOver() ABSL_LOCKS_EXCLUDED(mutex_) {
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      if (!each->spoke) {
        ++each;
        continue;
      }
      const int fd = each->fd;
      bool added = false;
      {
        MutexLock lock(&mutex_);
        if (taken_.unproven() >= bounds_.unproven) return true;
        if (!taken_.IsItsTurn(each->remote.address)) {
          ++each;
          continue;
        }
        added = taken_.Add(fd, each->remote, each->since);
      }
      each = waiting_.erase(each);
      if (added) {
        backend_.take(fd);
      } else {
        CloseAtOnce(fd);
      }
    }
    return false;
  }

  // Looks after the connections of the backend, while some of ours wait for a place there.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex_) {
    since_sweep_ = Timer(clock_);
    const auto spoke = std::count_if(waiting_.begin(), waiting_.end(),
                                     [](const Waiting& each) { return each.spoke; });
    std::vector<std::string> reports;
    {
      MutexLock lock(&mutex_);
      reports = taken_.Sweep(spoke, &victims_);
    }
    for (const std::string& report : reports) Report(report);
  }

  // Counts the streams that were begun: a call that is reset at once never reaches CountCall().
  void CountStreams() ABSL_LOCKS_EXCLUDED(mutex_) {
    // Counting takes at most half of the time of the thread.
    if (since_count_.Elapsed() < std::max(kTick, counting_took_)) return;
    const Timer timer(clock_);
    std::vector<std::string> reports;
    for (const BegunStreams& each : backend_.begun_streams()) {
      MutexLock lock(&mutex_);
      reports.push_back(taken_.CountStreams(each.peer, each.count));
    }
    for (const std::string& report : reports) Report(report);
    counting_took_ = timer.Elapsed();
    since_count_ = Timer(clock_);
  }

  // Gives back to the machine what a flood of calls took, some time after it: the allocator would
  // keep it.
  void GiveMemoryBack() ABSL_LOCKS_EXCLUDED(mutex_) {
    bool flooded;
    {
      MutexLock lock(&mutex_);
      flooded = taken_.TakeFlooded();
    }
    if (!flooded) {
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
  Timer since_flood_{clock_};  // since the first flood after the last trim
  Rng victims_{0, Rng::Purpose("connection_gate/victims")};

  Mutex mutex_;
  CondVar changed_;  // signalled when listening_ changes
  bool listening_ ABSL_GUARDED_BY(mutex_) = true;
  bool stop_listening_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  TakenConnections taken_ ABSL_GUARDED_BY(mutex_);
};

ConnectionGate::ConnectionGate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ConnectionGate::~ConnectionGate() = default;

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(
    const LinkAddress& endpoint, const ConnectionBounds& bounds) {
  DING_ASSIGN_OR_RETURN(const int listen_fd, ListenOn(endpoint, kUnprovenBytes));
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
