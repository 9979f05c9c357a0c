#include "ding_worker/base/process_resources.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"

namespace ding {
namespace {

// Lowers `limits` to those of one cgroup.
void AddLimitsOf(const std::string& folder, ProcessResources* limits) {
  const absl::StatusOr<std::string> memory = ReadFile(JoinPath(folder, "memory.max"));
  int64_t bytes = 0;
  // "max" means no limit; it is no number.
  if (memory.ok() && absl::SimpleAtoi(*memory, &bytes) && bytes >= 0) {
    limits->memory_bytes = std::min(limits->memory_bytes, bytes);
  }
  const absl::StatusOr<std::string> cpu = ReadFile(JoinPath(folder, "cpu.max"));
  if (!cpu.ok()) return;
  // Microseconds of computing in each period, and the length of a period.
  const std::vector<absl::string_view> fields =
      absl::StrSplit(*cpu, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  double quota = 0;
  double period = 0;
  if (fields.size() == 2 && absl::SimpleAtod(fields[0], &quota) && quota > 0 &&
      absl::SimpleAtod(fields[1], &period) && period > 0) {
    limits->cpus = std::min(limits->cpus, quota / period);
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

}  // namespace

ProcessResources ReadCgroupLimits(const std::string& membership_file, const std::string& mount) {
  ProcessResources limits;
  const absl::StatusOr<std::string> memberships = ReadFile(membership_file);
  if (!memberships.ok()) return limits;
  for (absl::string_view line : absl::StrSplit(*memberships, '\n')) {
    // Other lines are of version 1.
    if (!absl::ConsumePrefix(&line, "0::")) continue;
    std::string folder = mount;
    AddLimitsOf(folder, &limits);
    for (const absl::string_view name : absl::StrSplit(line, '/', absl::SkipEmpty())) {
      // A cgroup that is outside of the container's namespace, as "/../other", is not below the mount.
      if (name == "..") break;
      folder = JoinPath(folder, name);
      AddLimitsOf(folder, &limits);
    }
  }
  return limits;
}

ProcessResources ReadProcessResources() {
  ProcessResources resources = ReadCgroupLimits("/proc/self/cgroup", "/sys/fs/cgroup");
  resources.cpus = std::min(resources.cpus, AllowedCores());
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  resources.memory_bytes = std::min(resources.memory_bytes, machine);
  return resources;
}

}  // namespace ding
