#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "ding_worker/base/process_resources.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

struct Outcome {
  int64_t found = 0;
  rlim_t soft = 0;
  int64_t limit = 0;
};

// Calls RaiseDescriptorLimit(most) under limits of `soft` and `hard`, in a child process because
// the hard limit cannot be raised again.
Outcome RaiseUnder(rlim_t soft, rlim_t hard, int64_t most = kMaxDescriptorLimit) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limits = {soft, hard};
    Outcome outcome;
    if (setrlimit(RLIMIT_NOFILE, &limits) != 0) _exit(1);
    outcome.found = RaiseDescriptorLimit(most);
    rlimit now = {};
    getrlimit(RLIMIT_NOFILE, &now);
    outcome.soft = now.rlim_cur;
    outcome.limit = DescriptorLimit();
    const bool written = write(ends[1], &outcome, sizeof(outcome)) == sizeof(outcome);
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  Outcome outcome;
  EXPECT_EQ(read(ends[0], &outcome, sizeof(outcome)), ssize_t{sizeof(outcome)});
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return outcome;
}

TEST(DescriptorLimitTest, IsRaisedToTheHardLimit) {
  const Outcome outcome = RaiseUnder(100, 200);
  EXPECT_EQ(outcome.found, 100);
  EXPECT_EQ(outcome.soft, rlim_t{200});
  EXPECT_EQ(outcome.limit, 200);
}

TEST(DescriptorLimitTest, StaysIfItIsAtTheHardLimit) {
  const Outcome outcome = RaiseUnder(200, 200);
  EXPECT_EQ(outcome.found, 200);
  EXPECT_EQ(outcome.soft, rlim_t{200});
}

TEST(DescriptorLimitTest, IsNotRaisedAboveTheGivenMaximum) {
  EXPECT_EQ(RaiseUnder(100, 200, 150).soft, rlim_t{150});
  // A higher limit, which somebody has set on purpose, stays as it is.
  EXPECT_EQ(RaiseUnder(180, 200, 150).soft, rlim_t{180});
}

}  // namespace
}  // namespace ding
