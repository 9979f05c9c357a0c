// Counts the allocations of a program, for tests that something allocates nothing: linking this
// target replaces operator new.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_ALLOCATION_COUNT_H_
#define DING_WORKER_BASE_ALLOCATION_COUNT_H_

#include <cstdint>

namespace ding {

// Calls of operator new so far.
int64_t AllocationCount();

}  // namespace ding

#endif  // DING_WORKER_BASE_ALLOCATION_COUNT_H_
