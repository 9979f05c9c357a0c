// How many threads one operation of libtorch may use.
#ifndef DING_WORKER_POLICY_TORCH_TORCH_THREADS_H_
#define DING_WORKER_POLICY_TORCH_TORCH_THREADS_H_

namespace ding {

// For this process: libtorch and the OpenBLAS below it. At least 1. Until this is called every
// operation runs on the thread that asks for it, so that workers do not compete for the cores and
// results do not depend on how many there are.
void SetTorchThreads(int num_threads);
int GetTorchThreads();

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_THREADS_H_
