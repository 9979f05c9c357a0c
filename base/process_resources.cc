#include "ding_worker/base/process_resources.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"

namespace ding {
namespace {

void AddMemoryLimit(const std::string& file, ProcessResources* limits) {
  const absl::StatusOr<std::string> memory = ReadFile(file);
  int64_t bytes = 0;
  // "max" means no limit; it is no number.
  if (memory.ok() && absl::SimpleAtoi(*memory, &bytes) && bytes >= 0) {
    limits->memory_bytes = std::min(limits->memory_bytes, bytes);
  }
}

// `text` has microseconds of computing in each period, and the length of a period.
void AddCpuLimit(absl::string_view text, ProcessResources* limits) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  double quota = 0;
  double period = 0;
  if (fields.size() == 2 && absl::SimpleAtod(fields[0], &quota) && quota > 0 &&
      absl::SimpleAtod(fields[1], &period) && period > 0) {
    limits->cpus = std::min(limits->cpus, quota / period);
  }
}

// Lowers `limits` to those of one cgroup. It has files of version 1 or of version 2.
void AddLimitsOf(const std::string& folder, ProcessResources* limits) {
  AddMemoryLimit(JoinPath(folder, "memory.max"), limits);
  AddMemoryLimit(JoinPath(folder, "memory.limit_in_bytes"), limits);
  const absl::StatusOr<std::string> cpu = ReadFile(JoinPath(folder, "cpu.max"));
  if (cpu.ok()) AddCpuLimit(*cpu, limits);
  const absl::StatusOr<std::string> quota = ReadFile(JoinPath(folder, "cpu.cfs_quota_us"));
  const absl::StatusOr<std::string> period = ReadFile(JoinPath(folder, "cpu.cfs_period_us"));
  if (quota.ok() && period.ok()) AddCpuLimit(absl::StrCat(*quota, " ", *period), limits);
}

// Lowers `limits` to those of the cgroup `path` below `folder`, and of all cgroups above it.
void AddLimitsDownTo(std::string folder, absl::string_view path, ProcessResources* limits) {
  AddLimitsOf(folder, limits);
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    // A cgroup that is outside of the container's namespace, as "/../other", is not below the
    // mount.
    if (name == "..") break;
    folder = JoinPath(folder, name);
    AddLimitsOf(folder, limits);
  }
}

// The cores that the scheduler may put this process on.
double AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // It fails on machines with more cores than a cpu_set_t can hold.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<double>(CPU_COUNT(&set));
  return static_cast<double>(std::thread::hardware_concurrency());
}

// The smaller of both. ("Unlimited" is the largest rlim_t, which does not fit into an int64_t.)
int64_t AtMost(int64_t most, rlim_t limit) {
  return static_cast<int64_t>(std::min<rlim_t>(limit, static_cast<rlim_t>(most)));
}

std::atomic<int (*)()>& GpuCounter() {
  static std::atomic<int (*)()> counter{nullptr};
  return counter;
}

}  // namespace

ProcessResources ReadCgroupLimits(const std::string& membership_file, const std::string& mount) {
  ProcessResources limits;
  const absl::StatusOr<std::string> memberships = ReadFile(membership_file);
  if (!memberships.ok()) return limits;
  for (const absl::string_view line : absl::StrSplit(*memberships, '\n')) {
    // "0::/path" of version 2; "4:cpu,cpuacct:/path" of version 1, which has a mount for each set
    // of controllers.
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) {
      AddLimitsDownTo(mount, parts[2], &limits);
      continue;
    }
    for (const absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller != "cpu" && controller != "memory") continue;
      AddLimitsDownTo(JoinPath(mount, controller), parts[2], &limits);
      if (parts[1] != controller) AddLimitsDownTo(JoinPath(mount, parts[1]), parts[2], &limits);
    }
  }
  return limits;
}

int UsableCores() { return std::max(1, static_cast<int>(std::ceil(ReadProcessResources().cpus))); }

ProcessResources ReadProcessResources() {
  ProcessResources resources = ReadCgroupLimits("/proc/self/cgroup", "/sys/fs/cgroup");
  resources.cpus = std::min(resources.cpus, AllowedCores());
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  resources.memory_bytes = std::min(resources.memory_bytes, machine);
  return resources;
}

int64_t DescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);  // cannot fail with these arguments
  return AtMost(kMaxDescriptorLimit, limit.rlim_cur);
}

int64_t RaiseDescriptorLimit(int64_t most) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int64_t found = AtMost(kMaxDescriptorLimit, limit.rlim_cur);
  const auto wanted = static_cast<rlim_t>(AtMost(most, limit.rlim_max));
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    // If the system refuses, the limit stays as it was, and the program runs with that.
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return found;
}

void SetGpuCounter(int (*counter)()) {
  DING_CHECK(GpuCounter().exchange(counter) == nullptr) << "there are two counters of GPUs";
}

int CountGpus() {
  const auto counter = GpuCounter().load();
  return counter == nullptr ? 0 : counter();
}

}  // namespace ding
