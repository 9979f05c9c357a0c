// The memory of a network on a device (policy/device/device_network.h): arrays with a copy on the host,
// copies of columns to the device and back, and Adam there. Without a device of its own, host and
// device are the same memory.
//
// The host waits for the device in Download(), for norms, and to read an array. Upload() does not
// wait: it copies large columns to pinned memory while a GPU computes, by several threads.
//
// This header includes libtorch. Errors are exceptions of libtorch, unless a function returns a
// status. Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_TORCH_DEVICE_ARRAYS_H_
#define DING_WORKER_POLICY_TORCH_DEVICE_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "absl/types/span.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/optimizer.h"

namespace ding {

// A flat array of floats, at first 0.
class MirroredArray {
 public:
  MirroredArray() = default;
  MirroredArray(int64_t size, at::Device device, bool copies);

  int64_t size() const { return host_.num_elements(); }
  // The array on the device, always at the same address there, with what was written on the host.
  const at::Tensor& OnDevice();
  // To be called after the array on the device was changed.
  void ChangedOnDevice() { device_is_newer_ = copies_; }

  // The array on the host; NaN if the device no longer gives it.
  absl::Span<const float> Read() const;
  // The same, to be changed until the next OnDevice().
  absl::Span<float> Change();

 private:
  bool copies_ = false;
  mutable Tensor host_;
  at::Tensor on_host_;  // the memory of host_
  at::Tensor on_device_;
  mutable bool device_is_newer_ = false;
  bool host_is_newer_ = false;
};

class Transfers {
 public:
  Transfers(at::Device device, bool copies);
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers();

  // Returns `host` on the device. The memory of `host` may change afterwards if there are copies.
  at::Tensor Upload(const at::Tensor& host);
  // Copies each tensor to the contiguous memory of the same place in `to`, and waits once.
  void Download(const std::vector<at::Tensor>& from, const std::vector<void*>& to);

 private:
  // Returns pinned memory for a tensor like this, which no copy uses.
  at::Tensor Pinned(const at::Tensor& like);
  void Wait() const;

  const at::Device device_;
  const bool copies_;
  // Pinned memory. Copies that may not have ended use the first `num_used_` buffers.
  std::unique_ptr<std::vector<at::Tensor>> buffers_ = std::make_unique<std::vector<at::Tensor>>();
  size_t num_used_ = 0;
};

// Waits for a number on the device. Unlike item(), it needs no pinned memory, whose end without its
// GPU would end the process.
double ToHost(const at::Tensor& scalar);

// Whether a step met gradients that are not finite; steps change nothing from then on.
struct FailedSteps {
  at::Tensor flag;      // 0 or 1, on the device
  bool unread = false;  // whether a step may have changed it since it was read
};

// All but `what`, which begins messages, must outlive it.
std::unique_ptr<DeviceAdam> MakeTorchAdam(const std::string& what, MirroredArray* parameters,
                                          MirroredArray* gradients, FailedSteps* failed);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_DEVICE_ARRAYS_H_
