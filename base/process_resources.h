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

// Reads and raises the limit of open files of this process. Each file, socket and pipe takes one
// descriptor.
//
// Threads: thread-safe.
//
// Example:
//   RaiseDescriptorLimit();  // first thing in main()

// The current soft limit (`ulimit -n`); kMaxDescriptorLimit if it is higher than that.
int64_t DescriptorLimit();

// More descriptors than any program of ours needs. The limit is not raised beyond this, because some
// programs close every possible descriptor before they run another one, and would take minutes with a
// limit of a billion.
inline constexpr int64_t kMaxDescriptorLimit = 65536;

// Raises the soft limit to the hard limit, but not above `most`. A soft limit that is already higher stays
// as it is. Child processes inherit the new limit. If the system refuses, the old limit stays. Returns the
// soft limit as it was before the call (at most kMaxDescriptorLimit).
int64_t RaiseDescriptorLimit(int64_t most = kMaxDescriptorLimit);

}  // namespace ding

// Counts the GPUs that a process may use. A library that uses GPUs provides the counter; without such a library, there are
// none.
//
// Threads: thread-safe.

namespace ding {

// Sets the function that counts GPUs. The library that uses them calls this before main(); a program has at most one such
// library.
void SetGpuCounter(int (*counter)());

// Returns the result of that function, or 0 if none is set.
int CountGpus();

}  // namespace ding

#endif  // DING_WORKER_BASE_PROCESS_RESOURCES_H_
