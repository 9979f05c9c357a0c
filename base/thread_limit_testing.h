// For tests without threads: from a point on, the system refuses them.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_BASE_THREAD_LIMIT_TESTING_H_
#define DING_WORKER_BASE_THREAD_LIMIT_TESTING_H_

#include <pthread.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <functional>

#include "gtest/gtest.h"

namespace ding {

// Lets the system refuse all further threads of this process. It limits the address space, because
// root is exempt from the limit of processes. 512 MiB remain, less than the stack of a thread, and
// the stack of an earlier thread is too small to be used again. Sanitizers need more address space,
// so such tests have the tag "no-sanitizer".
inline void RefuseThreads() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{1} << 30);
  pthread_setattr_default_np(&attributes);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{512} << 20);
  const rlimit limit = {most, most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// Runs `body` in a child process, because a limit cannot be raised again. Fails if `body` has
// failed.
inline void RunInChild(const std::function<void()>& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}

}  // namespace ding

#endif  // DING_WORKER_BASE_THREAD_LIMIT_TESTING_H_
