// The limit of open files of this process: each file, socket and pipe takes a descriptor.
//
// Threads: thread-safe.
//
// Example:
//   RaiseDescriptorLimit();  // first thing in main()
#ifndef DING_WORKER_BASE_DESCRIPTOR_LIMIT_H_
#define DING_WORKER_BASE_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace ding {

// The soft limit that holds now (`ulimit -n`), at most kMaxDescriptorLimit.
int64_t DescriptorLimit();

// More than any program of ours needs. Programs that close every possible descriptor before they
// run another one, as some do, would take minutes with a limit of a billion.
inline constexpr int64_t kMaxDescriptorLimit = 65536;

// Raises the soft limit to the hard one, or to `most` if the hard one is higher. A limit that is
// higher already stays. Child processes inherit it. Returns the soft limit that it found.
int64_t RaiseDescriptorLimit(int64_t most = kMaxDescriptorLimit);

}  // namespace ding

#endif  // DING_WORKER_BASE_DESCRIPTOR_LIMIT_H_
