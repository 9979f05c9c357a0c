// Reads and raises the limit of open files of this process. Each file, socket and pipe takes one
// descriptor.
//
// Threads: thread-safe.
//
// Example:
//   RaiseDescriptorLimit();  // first thing in main()
#ifndef DING_WORKER_BASE_DESCRIPTOR_LIMIT_H_
#define DING_WORKER_BASE_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace ding {

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

#endif  // DING_WORKER_BASE_DESCRIPTOR_LIMIT_H_
