#include "ding_worker/worker/program/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <utility>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
// timeout(1) sends its signal twice, and so do the shell and the system when a terminal is closed:
// signals of a kind that come within this time are one.
constexpr int64_t kSameSignalNanos = 100'000'000;
constexpr absl::Duration kWatchPeriod = absl::Milliseconds(20);

std::atomic<int> caught{0};
std::atomic<int64_t> caught_nanos{0};
std::atomic<int64_t> seen_nanos[NSIG];
static_assert(std::atomic<int64_t>::is_always_lock_free, "used in a signal handler");

int64_t NowNanos() { return Clock::Real()->MonotonicNanos(); }

// The clock was used before, so that its call is safe in a signal handler.
void Handle(int signal) {
  const int64_t now = NowNanos();
  int64_t first = 0;
  if (!seen_nanos[signal].compare_exchange_strong(first, now)) {
    if (now - first < kSameSignalNanos) return;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  int none = 0;
  if (caught.load() == 0) caught_nanos.store(now);
  caught.compare_exchange_strong(none, signal);
}

absl::Duration InterruptAge() { return absl::Nanoseconds(NowNanos() - caught_nanos.load()); }

}  // namespace

void CatchInterrupts() {
  NowNanos();
  for (const int signal : kSignals) {
    struct sigaction before = {};
    const bool may_be_ignored = signal == SIGHUP || signal == SIGUSR1;
    if (may_be_ignored && sigaction(signal, nullptr, &before) == 0 &&
        before.sa_handler == SIG_IGN) {
      continue;
    }
    struct sigaction action = {};
    action.sa_handler = Handle;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

int InterruptSignal() { return caught.load(); }

bool IsOverdue() { return IsInterrupted() && InterruptAge() >= kInterruptPatience; }

std::atomic<int> ScopedSave::count{0};

absl::Status InterruptDeadline::Start() {
  DING_ASSIGN_OR_RETURN(thread_, StartThread("interrupts", [this] { Run(); }));
  return absl::OkStatus();
}

InterruptDeadline::~InterruptDeadline() {
  {
    const MutexLock lock(&mutex_);
    done_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void InterruptDeadline::Enter(std::function<void()> end) {
  const MutexLock lock(&mutex_);
  end_ = std::move(end);
  begun_ = Timer(Clock::Real());
}

void InterruptDeadline::Run() {
  MutexLock lock(&mutex_);
  while (!done_) {
    changed_.WaitFor(&mutex_, kWatchPeriod);
    if (!IsInterrupted() || end_ == nullptr || ScopedSave::count.load() > 0 ||
        InterruptAge() < kLastInterruptPatience || begun_.Elapsed() < kLastInterruptPatience) {
      continue;
    }
    end_();
    _exit(128 + InterruptSignal());
  }
}

}  // namespace ding
