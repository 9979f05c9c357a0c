#include "ding_worker/env/process/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"

namespace ding {
namespace {

// Without a terminal no process is stopped because it reads from it or writes to it. The process
// stays in its session: Linux may schedule each session as a group (sched_autogroup), and then
// sched_yield() of the program that waits for a process of another session does not yield to it.
void LeaveTerminal() {
  const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (terminal < 0) return;  // There is none.
  ioctl(terminal, TIOCNOTTY);
  close(terminal);
}

constexpr int kTailBytes = 4096;
constexpr absl::Duration kPatience = absl::Seconds(5);
// For processes that were killed to be gone: less than those who wait for a child allow.
constexpr absl::Duration kSweepPatience = absl::Seconds(2);
constexpr absl::Duration kSweepPause = absl::Milliseconds(2);

absl::Status SystemError(absl::string_view call, int error) {
  return absl::UnavailableError(absl::StrCat(call, ": ", std::strerror(error)));
}

// The parents' ends of the sockets of all servers of this process. A server that held another's
// would keep that one from seeing the parent's end.
struct Sockets {
  Mutex mutex;
  std::set<int> open;
};
Sockets& AllSockets() {
  static Sockets* const sockets = new Sockets;
  return *sockets;
}

struct Request {
  char what;  // 's'pawn or 'k'ill
  int child;
};

// The children of this process, which has one thread. One that has ended counts until it is reaped,
// so that nobody else has its id.
std::vector<pid_t> Children() {
  std::vector<pid_t> pids;
  std::ifstream children(absl::StrCat("/proc/self/task/", getpid(), "/children"));
  for (pid_t pid = 0; children >> pid;) pids.push_back(pid);
  return pids;
}

// Kills and reaps all children of this process, and theirs, which it adopts one generation after
// the other. Gives up on those that the system does not let go.
void KillAllBelow() {
  const Deadline deadline = Deadline::After(kSweepPatience);
  while (!deadline.Passed()) {
    for (const pid_t pid : Children()) kill(pid, SIGKILL);
    pid_t reaped = 0;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    absl::SleepFor(kSweepPause);
  }
}

}  // namespace

// Written by the server, read by the parent.
struct ForkServer::Shared {
  struct alignas(64) Child {
    std::atomic<int> state{static_cast<int>(State::kNone)};
    std::atomic<int> pid{0};
    std::atomic<int> wait_status{0};
    // Told by the keeper, which ends next.
    std::atomic<int> has_ended{0};
    std::atomic<int> keepers_word{0};  // its wait status then
    // A ring: the last byte is at (tail_size - 1) % kTailBytes. Not read before the child has
    // ended.
    int64_t tail_size = 0;
    char tail[kTailBytes];
  };
  Child children[1];
};

// The work of the server process.
class ForkServer::Server {
 public:
  Server(Options options, Shared* shared, int socket, pid_t parent)
      : options_(std::move(options)),
        shared_(shared),
        socket_(socket),
        parent_(parent),
        self_(getpid()),
        pipes_(static_cast<size_t>(options_.num_children), -1),
        keepers_(static_cast<size_t>(options_.num_children), 0) {}

  [[noreturn]] void Run() {
    // Ctrl-C is the parent's business; so is everything else that ends it. SIGUSR1, by which a
    // batch system warns all processes of a job, stays ignored in the children.
    setpgid(0, 0);
    LeaveTerminal();
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1}) {
      signal(number, SIG_IGN);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t child_ends;
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ends, nullptr);
    signal_ = signalfd(-1, &child_ends, SFD_NONBLOCK | SFD_CLOEXEC);
    while (signal_ >= 0 && Turn()) {
    }
    for (int child = 0; child < options_.num_children; ++child) Kill(child);
    const Deadline deadline = Deadline::After(kSweepPatience);
    while (AnyKeeperLives() && !deadline.Passed()) absl::SleepFor(kSweepPause);
    KillAllBelow();
    _exit(0);
  }

 private:
  Shared::Child& child(int i) { return shared_->children[i]; }

  // False when the parent is gone.
  bool Turn() {
    std::vector<pollfd> fds = {{socket_, POLLIN, 0}, {signal_, POLLIN, 0}};
    for (const int pipe : pipes_) fds.push_back({pipe, POLLIN, 0});  // -1 is passed over
    // Once a second: is the parent still there, should another process hold its end of the socket?
    const int ready = poll(fds.data(), fds.size(), 1000);
    if (getppid() != parent_) return false;
    if (ready <= 0) return true;
    for (size_t i = 0; i < pipes_.size(); ++i) {
      if (fds[i + 2].revents != 0) ReadTail(static_cast<int>(i));
    }
    if (fds[1].revents != 0) Reap();
    return fds[0].revents == 0 || HandleRequest();
  }

  // Reads a request of the parent and carries it out. Returns false if the parent has closed the
  // socket.
  bool HandleRequest() {
    Request request;
    const ssize_t size = recv(socket_, &request, sizeof(request), 0);
    if (size < 0 && errno == EINTR) return true;
    if (size != sizeof(request)) return false;
    if (request.what == 's') {
      Fork(request.child);
    } else {
      Kill(request.child);
    }
    return true;
  }

  void Fork(int i) {
    child(i).tail_size = 0;
    child(i).has_ended.store(0);
    int ends[2] = {-1, -1};
    const bool piped = pipe2(ends, O_CLOEXEC) == 0;
    const pid_t pid = piped ? fork() : -1;
    if (pid == 0) BeKeeper(i, ends[1]);
    const int error = errno;
    if (ends[1] >= 0) close(ends[1]);
    if (pid < 0) {
      if (ends[0] >= 0) close(ends[0]);
      Ended(i, -error);
      return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    pipes_[static_cast<size_t>(i)] = ends[0];
    keepers_[static_cast<size_t>(i)] = pid;
  }

  // Is the parent of a child, and of those whom the child's processes leave behind. Told by SIGTERM
  // to kill the child.
  [[noreturn]] void BeKeeper(int i, int standard_error) {
    sigset_t told;
    sigemptyset(&told);
    for (const int number : {SIGTERM, SIGCHLD}) {
      sigaddset(&told, number);
      signal(number, SIG_DFL);
    }
    sigprocmask(SIG_BLOCK, &told, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != self_) _exit(0);  // The server was gone before that.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t keeper = getpid();
    const pid_t pid = fork();
    if (pid == 0) BeChild(i, standard_error, keeper);
    if (pid < 0) {
      Tell(i, -errno);
      _exit(0);
    }
    setpgid(pid, pid);  // Also here, so that it leads its group before anyone kills that.
    child(i).pid.store(pid);
    close(standard_error);
    close(socket_);
    siginfo_t ended = {};
    while (!HasEnded(pid, &ended)) {
      if (sigwaitinfo(&told, nullptr) == SIGTERM) kill(-pid, SIGKILL);
      // Orphans that end meanwhile; the child itself is looked at first.
      while (!HasEnded(pid, &ended) && ReapAnother(pid)) {
      }
    }
    // A pid that is not reaped yet belongs to nobody else.
    kill(-pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    child(i).pid.store(0);
    KillAllBelow();
    Tell(i, status);
    _exit(0);
  }

  static bool HasEnded(pid_t pid, siginfo_t* info) {
    info->si_pid = 0;
    return waitid(P_PID, static_cast<id_t>(pid), info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info->si_pid == pid;
  }

  // Reaps somebody who has ended and is not `pid`; false: there is nobody.
  static bool ReapAnother(pid_t pid) {
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
    if (info.si_pid == 0 || info.si_pid == pid) return false;
    return waitpid(info.si_pid, nullptr, WNOHANG) > 0;
  }

  void Tell(int i, int status) {
    child(i).keepers_word.store(status);
    child(i).has_ended.store(1);
  }

  [[noreturn]] void BeChild(int i, int standard_error, pid_t keeper) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(0);  // It was gone before that.
    setpgid(0, 0);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
    // A child that waits for input, such as a debugger, would wait for ever.
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing > STDIN_FILENO) {
      dup2(nothing, STDIN_FILENO);
      close(nothing);
    }
    close(socket_);
    close(signal_);
    for (const int pipe : pipes_) {
      if (pipe >= 0) close(pipe);
    }
    _exit(options_.run(i));
  }

  void Kill(int i) {
    // The pid of a keeper that is not reaped yet belongs to nobody else.
    const pid_t keeper = keepers_[static_cast<size_t>(i)];
    if (keeper > 0) kill(keeper, SIGTERM);
  }

  bool AnyKeeperLives() {
    Reap();
    return std::any_of(keepers_.begin(), keepers_.end(), [](pid_t keeper) { return keeper > 0; });
  }

  void Reap() {
    signalfd_siginfo info;
    while (read(signal_, &info, sizeof(info)) > 0) {
    }
    int status = 0;
    pid_t pid;
    bool adopted = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      const auto found = std::find(keepers_.begin(), keepers_.end(), pid);
      if (found == keepers_.end()) {
        adopted = true;
        continue;
      }
      *found = 0;
      const int i = static_cast<int>(found - keepers_.begin());
      const bool told = child(i).has_ended.load() != 0;
      // Whatever killed the keeper has killed the child, too.
      adopted = adopted || !told;
      ReadTail(i);
      if (pipes_[static_cast<size_t>(i)] >= 0) close(pipes_[static_cast<size_t>(i)]);
      pipes_[static_cast<size_t>(i)] = -1;
      Ended(i, told ? child(i).keepers_word.load() : status);
    }
    if (adopted) KillAdopted();
  }

  // Kills the processes that children left whose keepers were killed. The end of each is reaped,
  // which calls this function again.
  void KillAdopted() {
    for (const pid_t pid : Children()) {
      if (std::find(keepers_.begin(), keepers_.end(), pid) == keepers_.end()) kill(pid, SIGKILL);
    }
  }

  void Ended(int i, int status) {
    child(i).pid.store(0);
    child(i).wait_status.store(status);
    child(i).state.store(static_cast<int>(State::kEnded));
    options_.on_end(i);
  }

  void ReadTail(int i) {
    char bytes[4096];
    while (pipes_[static_cast<size_t>(i)] >= 0) {
      const ssize_t size = read(pipes_[static_cast<size_t>(i)], bytes, sizeof(bytes));
      if (size < 0) return;  // Nothing left for now.
      if (size == 0) {
        close(pipes_[static_cast<size_t>(i)]);
        pipes_[static_cast<size_t>(i)] = -1;
        return;
      }
      for (ssize_t k = 0; k < size; ++k)
        child(i).tail[child(i).tail_size++ % kTailBytes] = bytes[k];
      if (write(STDERR_FILENO, bytes, static_cast<size_t>(size)) < 0)
        continue;  // Kept in the tail.
    }
  }

  const Options options_;
  Shared* const shared_;
  const int socket_;
  const pid_t parent_;
  const pid_t self_;
  int signal_ = -1;
  std::vector<int> pipes_;      // per child: its stderr, or -1
  std::vector<pid_t> keepers_;  // per child: its parent, or 0
};

absl::StatusOr<std::unique_ptr<ForkServer>> ForkServer::Start(Options options) {
  const int num_children = options.num_children;
  const size_t bytes = sizeof(Shared) + sizeof(Shared::Child) * static_cast<size_t>(num_children);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return SystemError("shared memory of a fork server", errno);
  auto* const shared = static_cast<Shared*>(memory);
  for (int i = 0; i < num_children; ++i) new (&shared->children[i]) Shared::Child();
  auto server = absl::WrapUnique(new ForkServer(shared, bytes, num_children));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("socket of a fork server", errno);
  }
  const pid_t parent = getpid();
  Sockets& sockets = AllSockets();
  const MutexLock lock(&sockets.mutex);
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int socket : sockets.open) close(socket);
    close(ends[0]);
    Server(std::move(options), shared, ends[1], parent).Run();
  }
  const int error = errno;
  close(ends[1]);
  server->socket_ = ends[0];
  sockets.open.insert(ends[0]);
  if (pid < 0) return SystemError("fork of a fork server", error);
  server->server_ = pid;
  return server;
}

ForkServer::ForkServer(Shared* shared, size_t shared_bytes, int num_children)
    : shared_(shared), shared_bytes_(shared_bytes), num_children_(num_children) {}

ForkServer::~ForkServer() {
  if (socket_ >= 0) {
    Sockets& sockets = AllSockets();
    const MutexLock lock(&sockets.mutex);
    close(socket_);
    sockets.open.erase(socket_);
  }
  if (server_ > 0) {
    const Deadline deadline = Deadline::After(kPatience);
    while (waitpid(server_, nullptr, WNOHANG) == 0) {
      if (!deadline.Passed()) {
        absl::SleepFor(absl::Microseconds(200));
        continue;
      }
      kill(server_, SIGKILL);  // Its children die with it.
      while (waitpid(server_, nullptr, 0) < 0 && errno == EINTR) {
      }
      break;
    }
  }
  munmap(shared_, shared_bytes_);
}

absl::Status ForkServer::Alive() const {
  pollfd fd = {socket_, POLLIN, 0};
  // A signal ends even a poll that does not wait.
  int ready = -1;
  do {
    ready = poll(&fd, 1, 0);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the fork server (pid ", server_, ") is gone"));
}

absl::Status ForkServer::Send(char what, int child) {
  DING_CHECK(child >= 0 && child < num_children_) << child;
  const Request request = {what, child};
  while (send(socket_, &request, sizeof(request), MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) {
      return absl::InternalError(absl::StrCat("the fork server (pid ", server_,
                                              ") does not take requests: ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

absl::Status ForkServer::Spawn(int child) {
  DING_CHECK(state(child) != State::kRunning) << child;
  shared_->children[child].state.store(static_cast<int>(State::kRunning));
  return Send('s', child);
}

absl::Status ForkServer::Kill(int child) { return Send('k', child); }

ForkServer::State ForkServer::state(int child) const {
  return static_cast<State>(shared_->children[child].state.load());
}

bool ForkServer::WaitForEnd(int child, absl::Duration timeout) const {
  const Deadline deadline = Deadline::After(timeout);
  while (state(child) == State::kRunning) {
    if (deadline.Passed() || !Alive().ok()) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

pid_t ForkServer::pid(int child) const { return shared_->children[child].pid.load(); }

int ForkServer::wait_status(int child) const { return shared_->children[child].wait_status.load(); }

std::string ForkServer::HowItEnded(int child) const {
  const int status = wait_status(child);
  if (status < 0) return absl::StrCat("could not be started: ", std::strerror(-status));
  if (WIFSIGNALED(status)) {
    return absl::StrCat("was killed by signal ", WTERMSIG(status), " (",
                        strsignal(WTERMSIG(status)), ")");
  }
  return absl::StrCat("exited with code ", WEXITSTATUS(status));
}

std::string ForkServer::LastLines(int child, int lines) const {
  const Shared::Child& ended = shared_->children[child];
  std::string tail;
  for (int64_t i = std::max<int64_t>(0, ended.tail_size - kTailBytes); i < ended.tail_size; ++i) {
    tail += ended.tail[i % kTailBytes];
  }
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  const std::vector<absl::string_view> all = absl::StrSplit(tail, '\n');
  const size_t kept = std::min(all.size(), static_cast<size_t>(lines));
  return absl::StrJoin(all.end() - static_cast<ptrdiff_t>(kept), all.end(), "\n");
}

}  // namespace ding
