#include "ding_worker/policy/torch/torch_device.h"

#ifndef DING_TORCH_WITHOUT_OPENBLAS
#include <cblas.h>
#endif

#include <algorithm>

#include "ATen/Parallel.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/check.h"
#include "torch/cuda.h"

namespace ding {
namespace {

// More GPUs than libtorch can count.
constexpr int kMaxGpus = 128;

// Returns the number behind "cuda:", 0 for "cuda", or -1 if `device` is neither.
int NumberOf(absl::string_view device) {
  if (device == "cuda") return 0;
  int number = 0;
  const bool is_number =
      absl::ConsumePrefix(&device, "cuda:") && !device.empty() &&
      std::all_of(device.begin(), device.end(), [](char c) { return absl::ascii_isdigit(c); }) &&
      absl::SimpleAtoi(device, &number) && number < kMaxGpus;
  return is_number ? number : -1;
}

}  // namespace

absl::Status CheckTorchDevice(absl::string_view device) {
  if (device == "cpu") return absl::OkStatus();
  const int number = NumberOf(device);
  if (number < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device is '", device, "', expected 'cpu', or 'cuda:N' for GPU number N, from 0 on"));
  }
  const int gpus = CountTorchGpus();
  if (number < gpus) return absl::OkStatus();
  if (gpus == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device is '", device,
        "', but this libtorch has no CUDA, or finds no GPU on this machine: set device to "
        "'cpu', or link a libtorch with CUDA on a machine with a GPU"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device is '", device, "', but this machine has ", gpus, gpus == 1 ? " GPU" : " GPUs",
      ": expected 'cuda:0'", gpus == 1 ? "" : absl::StrCat(" to 'cuda:", gpus - 1, "'")));
}

int CountTorchGpus() {
  return torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
}

void SetTorchThreads(int num_threads) {
  DING_CHECK(num_threads >= 1) << num_threads << " threads";
  at::set_num_threads(num_threads);
#ifndef DING_TORCH_WITHOUT_OPENBLAS  // tools/gpu_check, with a libtorch that has other libraries
  openblas_set_num_threads(num_threads);
#endif
}

int GetTorchThreads() { return at::get_num_threads(); }

}  // namespace ding
