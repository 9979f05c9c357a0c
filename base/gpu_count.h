// Counts the GPUs that a process may use. A library that uses GPUs provides the counter; without such a library, there are
// none.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_GPU_COUNT_H_
#define DING_WORKER_BASE_GPU_COUNT_H_

namespace ding {

// Sets the function that counts GPUs. The library that uses them calls this before main(); a program has at most one such
// library.
void SetGpuCounter(int (*counter)());

// Returns the result of that function, or 0 if none is set.
int CountGpus();

}  // namespace ding

#endif  // DING_WORKER_BASE_GPU_COUNT_H_
