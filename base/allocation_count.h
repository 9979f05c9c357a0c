// Counts the allocations of a program, for tests which show that some code allocates nothing. A
// program that links this target gets a counting operator new.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_ALLOCATION_COUNT_H_
#define DING_WORKER_BASE_ALLOCATION_COUNT_H_

#include <cstdint>

namespace ding {

// The number of calls of operator new since the program started, without those for memory of
// extended alignment.
int64_t AllocationCount();

}  // namespace ding

#endif  // DING_WORKER_BASE_ALLOCATION_COUNT_H_
