// Where, and with how many threads, libtorch computes. This header does not include libtorch.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TORCH_TORCH_DEVICE_H_
#define DING_WORKER_POLICY_TORCH_TORCH_DEVICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ding {

struct TorchOptions {
  // Where a network computes: "cpu", "cuda" (the first GPU) or "cuda:N" (GPU N, from 0 on).
  std::string device = "cpu";
  // Treats the CPU as a device with a memory of its own. It serves to test what a GPU needs.
  bool copies = false;
};

// Returns kInvalidArgument if `device` is no name of TorchOptions::device, or if the libtorch that
// is linked cannot compute on it, because it has no CUDA or this machine has no such GPU.
absl::Status CheckTorchDevice(absl::string_view device);

// The GPUs that the libtorch that is linked can compute on; 0 without CUDA.
int CountTorchGpus();

// Sets the number of threads, at least 1, of libtorch and its OpenBLAS for this process. By default
// every operation runs on the calling thread, so that workers do not compete for the cores and
// results do not depend on the number of cores.
void SetTorchThreads(int num_threads);
int GetTorchThreads();

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_DEVICE_H_
