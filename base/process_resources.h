// What this process may use: cores, memory, open files, GPUs.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_PROCESS_RESOURCES_H_
#define DING_WORKER_BASE_PROCESS_RESOURCES_H_

#include <cstdint>
#include <limits>
#include <string>

namespace ding {

// Three limits of cores and memory count, and the lowest holds: the machine's own, the cores that
// sched_setaffinity() allows, and the limits of the process's cgroups and of all cgroups above
// them. Version 2: cpu.max and memory.max. Version 1: cpu.cfs_quota_us with cpu.cfs_period_us, and
// memory.limit_in_bytes. See cgroup-v1 and cgroup-v2 in the Linux kernel's administration guide.
struct ProcessResources {
  double cpus = std::numeric_limits<double>::infinity();  // cores; may be a fraction
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();
};

// Returns the cores and the memory that this process may use.
ProcessResources ReadProcessResources();

// Returns the number of threads or processes that can compute at the same time, at least 1. A part
// of a core counts as one. std::thread::hardware_concurrency() knows neither containers nor,
// everywhere, the affinity.
int UsableCores();

// Returns the limits of the cgroups that `membership_file` (/proc/self/cgroup) names, whose folder
// is below `mount` (/sys/fs/cgroup). A limit that is missing or cannot be read does not limit.
ProcessResources ReadCgroupLimits(const std::string& membership_file, const std::string& mount);

// More descriptors than any program of ours needs. The limit is not raised beyond this, because
// some programs close every possible descriptor before they run another one, and would take minutes
// with a limit of a billion.
inline constexpr int64_t kMaxDescriptorLimit = 65536;

// The current soft limit of open files (`ulimit -n`); kMaxDescriptorLimit if it is higher than
// that. Each file, socket and pipe takes one descriptor.
int64_t DescriptorLimit();

// Raises the soft limit of open files to the hard limit, but not above `most`: first thing in
// main(). A soft limit that is already higher stays as it is. Child processes inherit the new
// limit. If the system refuses, the old limit stays. Returns the soft limit as it was before the
// call (at most kMaxDescriptorLimit).
int64_t RaiseDescriptorLimit(int64_t most = kMaxDescriptorLimit);

// Sets the function that counts the GPUs that this process may use. The library that uses them
// calls this before main(); a program has at most one such library.
void SetGpuCounter(int (*counter)());

// Returns the result of that function; 0 without such a library.
int CountGpus();

}  // namespace ding

#endif  // DING_WORKER_BASE_PROCESS_RESOURCES_H_
