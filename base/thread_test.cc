#include "ding_worker/base/thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <fstream>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "ding_worker/base/status_matchers.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(StartThreadTest, RunsTheBody) {
  std::atomic<bool> ran{false};
  DING_ASSERT_OK_AND_ASSIGN(std::thread thread, StartThread("a test", [&ran] { ran = true; }));
  thread.join();
  EXPECT_TRUE(ran);
}

TEST(CheckThreadsTest, SucceedsForAFewThreads) {
  EXPECT_THAT(CheckThreads(0), IsOk());
  EXPECT_THAT(CheckThreads(20), IsOk());
}

// The bytes of address space that this process uses.
rlim_t AddressSpace() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// Runs in a child process because the limit cannot be raised again. It limits the address space because root
// is exempt from the limit of processes. One more MiB of it is enough to report the error, but not for a
// stack. The stack is larger than those that the C library keeps from threads that have ended.
TEST(StartThreadTest, ReturnsAnErrorWhenTheSystemRefusesAThread) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{64} << 20);
    pthread_setattr_default_np(&attributes);
    const rlim_t most = AddressSpace() + (rlim_t{1} << 20);
    const rlimit limit = {most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    const absl::StatusOr<std::thread> thread = StartThread("a test", [] {});
    const bool named = absl::IsResourceExhausted(thread.status()) &&
                       absl::StrContains(thread.status().message(), "a thread for a test");
    const absl::Status checked = CheckThreads(3);
    const bool refused =
        absl::IsResourceExhausted(checked) &&
        absl::StrContains(checked.message(), "needs 3 threads at start-up, but could start only 0");
    _exit(named && refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}

}  // namespace
}  // namespace ding
