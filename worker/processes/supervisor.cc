#include "ding_worker/worker/processes/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {
namespace {

constexpr absl::Duration kReapPeriod = absl::Milliseconds(5);
constexpr absl::Duration kWatchPeriod = absl::Milliseconds(200);  // of OrphanWatch

// Whether `pid` has ended; if so, reaps it and takes its status.
bool Reap(pid_t pid, int* wait_status) {
  return pid > 0 && waitpid(pid, wait_status, WNOHANG) == pid;
}

void KillAndReap(pid_t pid) {
  kill(pid, SIGKILL);
  int wait_status = 0;
  waitpid(pid, &wait_status, 0);  // A stopped process also ends at once.
}

// Describes the death of a worker that was not done.
std::string DescribeDeath(int wait_status) {
  const bool zero = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
  return absl::StrCat("ended: ", DescribeWaitStatus(wait_status),
                      zero ? ", but it was not done: something in it called _exit(), as an env or "
                             "another module may"
                           : "");
}

}  // namespace

std::string DescribeWaitStatus(int wait_status) {
  if (WIFEXITED(wait_status)) return absl::StrCat("exit status ", WEXITSTATUS(wait_status));
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("signal ", WTERMSIG(wait_status), " (", strsignal(WTERMSIG(wait_status)),
                        ")");
  }
  return absl::StrCat("wait status ", wait_status);
}

Supervisor::Supervisor(Options options) : options_(std::move(options)) {}

Supervisor::~Supervisor() { Stop(absl::ZeroDuration()); }

absl::Status Supervisor::Start(const Worker& worker) {
  Process process;
  process.worker = worker;
  DING_RETURN_IF_ERROR(Spawn(&process));
  processes_.push_back(std::move(process));
  return absl::OkStatus();
}

absl::Status Supervisor::Spawn(Process* process) {
  const std::string& name =
      options_.program_name.empty() ? options_.program : options_.program_name;
  std::vector<char*> arguments = {const_cast<char*>(name.c_str())};
  const Worker& worker = process->worker;
  const bool again = process->started_before && !worker.arguments_again.empty();
  for (const std::string& argument : again ? worker.arguments_again : worker.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  // Each process gets a group of its own: Ctrl-C is for the supervisor, which ends the run.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A process of a background group that reads from the terminal, for example in a debugger, is
  // stopped.
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const int error = posix_spawn(&process->pid, options_.program.c_str(), &files, &attributes,
                                arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return ErrnoStatus(
        error, absl::StrCat("cannot start ", process->worker.name, " ('", options_.program, "')"));
  }
  process->started_nanos = options_.clock->MonotonicNanos();
  process->started_before = true;
  DING_LOG(INFO) << process->worker.name << " is process " << process->pid;
  return absl::OkStatus();
}

absl::Status Supervisor::Restart() {
  int wait_status = 0;
  for (auto process = processes_.begin(); process != processes_.end();) {
    if (!Reap(process->pid, &wait_status)) {
      ++process;
    } else if (IsDone(*process, wait_status)) {
      process = processes_.erase(process);
    } else {
      DING_RETURN_IF_ERROR(StartAgain(DescribeDeath(wait_status), &*process));
      ++process;
    }
  }
  const auto ended = [&wait_status](pid_t pid) {
    if (!Reap(pid, &wait_status)) return false;
    DING_LOG(WARNING) << "process " << pid
                      << ", which was replaced, ended: " << DescribeWaitStatus(wait_status);
    return true;
  };
  given_up_.erase(std::remove_if(given_up_.begin(), given_up_.end(), ended), given_up_.end());
  return absl::OkStatus();
}

bool Supervisor::IsDone(const Process& process, int wait_status) {
  const Worker& worker = process.worker;
  if (interrupted_ && worker.done == Worker::Done::kWithGoodbye) return true;
  if (worker.done == Worker::Done::kNever || !WIFEXITED(wait_status)) return false;
  if (worker.done == Worker::Done::kWithGoodbye && WEXITSTATUS(wait_status) != kGoodbyeStatus) {
    return false;
  }
  DING_LOG(INFO) << worker.name << " (process " << process.pid
                 << ") is done: " << DescribeWaitStatus(wait_status);
  done_[worker.name] = WEXITSTATUS(wait_status);
  return true;
}

void Supervisor::Interrupt(int signal, absl::string_view except) {
  interrupted_ = true;
  for (const Process& process : processes_) {
    if (process.pid > 0 && process.worker.name != except) kill(process.pid, signal);
  }
}

bool Supervisor::SomebodyHasEnded() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& process) {
    siginfo_t info = {};
    return process.pid > 0 &&
           waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == process.pid;
  });
}

bool Supervisor::Has(const std::string& name) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&name](const Process& process) { return process.worker.name == name; });
}

std::vector<std::string> Supervisor::names() const {
  std::vector<std::string> names;
  for (const Process& process : processes_) names.push_back(process.worker.name);
  return names;
}

std::optional<pid_t> Supervisor::PidOf(const std::string& name) const {
  for (const Process& process : processes_) {
    if (process.worker.name == name && process.pid != 0) return process.pid;
  }
  return std::nullopt;
}

std::optional<int> Supervisor::DoneWith(const std::string& name) const {
  const auto found = done_.find(name);
  return found == done_.end() ? std::nullopt : std::optional<int>(found->second);
}

absl::Status Supervisor::StartAgain(absl::string_view ended, Process* process) {
  const absl::Duration lived =
      absl::Nanoseconds(options_.clock->MonotonicNanos() - process->started_nanos);
  process->failures = lived < options_.short_life ? process->failures + 1 : 0;
  const std::string what =
      absl::StrCat(process->worker.name, " (process ", process->pid, "), started ",
                   absl::FormatDuration(lived), " ago, ", ended);
  process->pid = 0;
  if (process->failures >= options_.max_failures) {
    return absl::InternalError(
        absl::StrCat(what, ", ", process->failures, " times in a row soon after its start"));
  }
  DING_LOG(WARNING) << what << "; starting another one";
  ++restarts_;
  return Spawn(process);
}

absl::Status Supervisor::Replace(pid_t pid) {
  if (pid <= 0) return absl::OkStatus();
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [pid](const Process& process) { return process.pid == pid; });
  if (found == processes_.end()) return absl::OkStatus();
  int wait_status = 0;
  if (Reap(pid, &wait_status)) {
    if (IsDone(*found, wait_status)) {
      processes_.erase(found);
      return absl::OkStatus();
    }
    return StartAgain(DescribeDeath(wait_status), &*found);
  }
  // The process is stopped or hangs, or it is just ending.
  given_up_.push_back(pid);
  return StartAgain("lost its session", &*found);
}

void Supervisor::Stop(absl::Duration timeout) {
  const Timer timer(options_.clock);
  std::vector<pid_t> alive;
  for (const pid_t pid : pids()) {
    if (pid != 0) alive.push_back(pid);
  }
  int wait_status = 0;
  const auto reap = [&] {
    alive.erase(std::remove_if(alive.begin(), alive.end(),
                               [&](pid_t pid) { return Reap(pid, &wait_status); }),
                alive.end());
    return alive.empty();
  };
  while (!reap() && timer.Elapsed() < timeout) absl::SleepFor(kReapPeriod);
  for (const pid_t pid : alive) KillAndReap(pid);
  for (const pid_t pid : given_up_) KillAndReap(pid);
  processes_.clear();
  given_up_.clear();
}

std::vector<pid_t> Supervisor::pids() const {
  std::vector<pid_t> pids;
  for (const Process& process : processes_) pids.push_back(process.pid);
  return pids;
}

OrphanWatch::~OrphanWatch() {
  {
    MutexLock lock(&mutex_);
    done_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status OrphanWatch::Start(Options options) {
  options_ = std::move(options);
  DING_ASSIGN_OR_RETURN(thread_, StartThread("orphan watch", [this] { Watch(); }));
  return absl::OkStatus();
}

void OrphanWatch::SetSession(std::function<bool()> is_open) {
  MutexLock lock(&mutex_);
  session_is_open_ = std::move(is_open);
}

bool OrphanWatch::IsOrphan() {
  if (options_.supervisor_lives()) return false;
  MutexLock lock(&mutex_);
  return session_is_open_ == nullptr || !session_is_open_();
}

void OrphanWatch::Watch() {
  Timer since(Clock::Real());
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!done_) changed_.WaitFor(&mutex_, kWatchPeriod);
      if (done_) return;
    }
    if (!IsOrphan()) {
      since = Timer(Clock::Real());
    } else if (since.Elapsed() >= options_.patience) {
      DING_LOG(WARNING) << "the supervisor of process " << getpid() << " is gone and it has not "
                        << "ended within " << absl::FormatDuration(options_.patience)
                        << ": it is ended now";
      _exit(EXIT_FAILURE);  // Not exit(): destructors could wait for the same thing.
    }
  }
}

}  // namespace ding
