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
  // Treats the CPU as a device with its own memory, to test the code for GPUs without a GPU.
  bool copies = false;
};

// Returns kInvalidArgument if `device` is not a name that TorchOptions::device allows, or if the
// linked libtorch cannot compute on it, because libtorch has no CUDA or this machine has no such
// GPU.
absl::Status CheckTorchDevice(absl::string_view device);

// Returns the number of GPUs on which the linked libtorch can compute; 0 without CUDA.
int CountTorchGpus();

// Sets the number of threads, at least 1, of libtorch and its OpenBLAS for this process. By default
// every operation runs on the calling thread, so that workers do not compete for the cores and
// results do not depend on the number of cores.
void SetTorchThreads(int num_threads);
int GetTorchThreads();

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_DEVICE_H_
