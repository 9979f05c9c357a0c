// How many GPUs a process may use, as a library that it links says. Without such a library, it uses none.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_GPU_COUNT_H_
#define DING_WORKER_BASE_GPU_COUNT_H_

namespace ding {

// Names the function that counts GPUs. To be called before main(), by the library that uses them; a program
// has at most one such library.
void SetGpuCounter(int (*counter)());

// Returns what that function returns, or 0 without one.
int CountGpus();

}  // namespace ding

#endif  // DING_WORKER_BASE_GPU_COUNT_H_
