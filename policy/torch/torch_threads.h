// Sets the number of threads of an operation of libtorch.
#ifndef DING_WORKER_POLICY_TORCH_TORCH_THREADS_H_
#define DING_WORKER_POLICY_TORCH_TORCH_THREADS_H_

namespace ding {

// Sets the number of threads, at least 1, of libtorch and its OpenBLAS for this process. By default every
// operation runs on the calling thread, so that workers do not compete for the cores and results do not
// depend on the number of cores.
void SetTorchThreads(int num_threads);
int GetTorchThreads();

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_THREADS_H_
