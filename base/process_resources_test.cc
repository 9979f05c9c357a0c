#include "ding_worker/base/process_resources.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

class CgroupTest : public testing::Test {
 protected:
  CgroupTest() : mount_(FreshTestFolder()) {}

  // Makes the cgroup; its parent must be there.
  void Make(const std::string& path, absl::string_view cpu, absl::string_view memory) {
    const std::string folder = JoinPath(mount_, path);
    ASSERT_TRUE(CreateNewDirectory(folder).ok());
    OverwriteFile(JoinPath(folder, "cpu.max"), cpu);
    OverwriteFile(JoinPath(folder, "memory.max"), memory);
  }
  ProcessResources Read(absl::string_view membership) {
    const std::string file = JoinPath(mount_, "membership");
    OverwriteFile(file, membership);
    return ReadCgroupLimits(file, mount_);
  }

  std::string mount_;
};

TEST_F(CgroupTest, ReadsTheLimitsOfTheProcesssOwnCgroup) {
  Make("job", "150000 100000\n", "2147483648\n");
  const ProcessResources limits = Read("0::/job\n");
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, int64_t{2} << 30);
}

TEST_F(CgroupTest, TheLowestLimitOnTheWayCounts) {
  Make("slice", "400000 100000\n", "1000\n");
  Make("slice/job", "max 100000\n", "3000\n");
  Make("slice/other", "100 100000\n", "10\n");
  const ProcessResources limits = Read("0::/slice/job\n");
  EXPECT_EQ(limits.cpus, 4);
  EXPECT_EQ(limits.memory_bytes, 1000);
}

TEST_F(CgroupTest, AContainersOwnLimitsAreAtTheMount) {
  OverwriteFile(JoinPath(mount_, "cpu.max"), "50000 100000\n");
  OverwriteFile(JoinPath(mount_, "memory.max"), "4096\n");
  for (const char* const membership : {"0::/\n", "0::/kubepods/not-mounted-here\n", "0::/../x\n"}) {
    const ProcessResources limits = Read(membership);
    EXPECT_EQ(limits.cpus, 0.5) << membership;
    EXPECT_EQ(limits.memory_bytes, 4096) << membership;
  }
}

TEST_F(CgroupTest, FilesWithoutALimitDoNotLimit) {
  Make("max", "max 100000\n", "max\n");
  Make("broken", "many 100000\n", "lots\n");
  Make("negative", "-1 100000\n", "-5\n");
  Make("empty", "", "");
  for (const char* const membership : {"0::/max\n", "0::/broken\n", "0::/negative\n", "0::/empty\n",
                                       "0::/missing\n", "", "4:memory:/max\n"}) {
    const ProcessResources limits = Read(membership);
    EXPECT_TRUE(std::isinf(limits.cpus)) << membership;
    EXPECT_EQ(limits.memory_bytes, kNoLimit) << membership;
  }
  EXPECT_TRUE(std::isinf(ReadCgroupLimits(JoinPath(mount_, "missing"), mount_).cpus));
}

TEST_F(CgroupTest, Version1_HasAFolderForEachController) {
  for (const char* const folder : {"cpu,cpuacct", "cpu,cpuacct/slice", "cpu,cpuacct/slice/job",
                                   "memory", "memory/slice", "memory/slice/job"}) {
    ASSERT_TRUE(CreateNewDirectory(JoinPath(mount_, folder)).ok());
  }
  const auto write = [&](const char* file, absl::string_view text) {
    OverwriteFile(JoinPath(mount_, file), text);
  };
  const std::string membership =
      "7:cpu,cpuacct:/slice/job\n5:memory:/slice/job\n1:name=systemd:/x\n0::/\n";
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(Read(membership).cpus));
  EXPECT_EQ(Read(membership).memory_bytes, kNoLimit);
  write("cpu,cpuacct/slice/cpu.cfs_quota_us", "250000\n");
  write("cpu,cpuacct/slice/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/slice/job/cpu.cfs_quota_us", "800000\n");
  write("cpu,cpuacct/slice/job/cpu.cfs_period_us", "100000\n");
  write("memory/slice/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(Read(membership).cpus, 2.5);
  EXPECT_EQ(Read(membership).memory_bytes, 4096);
  // In a container, the path of the host is not mounted.
  write("cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(Read("7:cpu,cpuacct:/docker/0a1b\n").cpus, 0.5);
}

TEST(ProcessResources, FollowTheAffinityOfTheProcess) {
  const ProcessResources before = ReadProcessResources();
  EXPECT_GT(before.cpus, 0);
  EXPECT_GT(before.memory_bytes, 1 << 20);
  EXPECT_LT(before.memory_bytes, kNoLimit);
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_LE(ReadProcessResources().cpus, 1);
  EXPECT_EQ(UsableCores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_EQ(ReadProcessResources().cpus, before.cpus);
}

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

TEST(GpuCountTest, IsThatOfTheCounterOrZero) {
  EXPECT_EQ(CountGpus(), 0);
  SetGpuCounter([] { return 3; });
  EXPECT_EQ(CountGpus(), 3);
  EXPECT_DEATH(SetGpuCounter([] { return 1; }), "two counters of GPUs");
}

TEST(AllocationCountTest, EachFormOfOperatorNewCountsOnceAndItsMemoryCanBeDeleted) {
  const int64_t before = AllocationCount();

  // Called as functions: a compiler may leave out a new-expression whose memory is deleted at once.
  ::operator delete(::operator new(1));
  ::operator delete[](::operator new[](1));
  // As the temporary buffer of std::stable_sort is: AddressSanitizer stops here if only one of the
  // two is ours.
  ::operator delete(::operator new(1, std::nothrow));
  ::operator delete[](::operator new[](1, std::nothrow));

  EXPECT_EQ(AllocationCount() - before, 4);
}

}  // namespace
}  // namespace ding
