// The cores and the memory that this process may use.
//
// Three limits count, and the lowest holds: the machine's own, the cores that sched_setaffinity() allows, and those
// of the process's cgroups and of all cgroups above them. Version 2: cpu.max and memory.max. Version 1:
// cpu.cfs_quota_us with cpu.cfs_period_us, and memory.limit_in_bytes. See cgroup-v1 and cgroup-v2 in the Linux
// kernel's administration guide.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_PROCESS_RESOURCES_H_
#define DING_WORKER_BASE_PROCESS_RESOURCES_H_

#include <cstdint>
#include <limits>
#include <string>

namespace ding {

struct ProcessResources {
  double cpus = std::numeric_limits<double>::infinity();  // cores; may be a fraction
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();
};

// Returns what this process may use.
ProcessResources ReadProcessResources();

// Returns the number of threads or processes that can compute at the same time, at least 1. A part of a core counts
// as one. std::thread::hardware_concurrency() knows neither containers nor, everywhere, the affinity.
int UsableCores();

// Returns the limits of the cgroups that `membership_file` (/proc/self/cgroup) names, whose folder is below
// `mount` (/sys/fs/cgroup). A limit that is missing or cannot be read does not limit.
ProcessResources ReadCgroupLimits(const std::string& membership_file, const std::string& mount);

}  // namespace ding

#endif  // DING_WORKER_BASE_PROCESS_RESOURCES_H_
