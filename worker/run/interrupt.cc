#include "ding_worker/worker/run/interrupt.h"

#include <atomic>
#include <csignal>

namespace ding {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) { caught.store(signal); };
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int InterruptSignal() { return caught.load(); }

}  // namespace ding
