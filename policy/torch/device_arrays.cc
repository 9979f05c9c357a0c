#include "ding_worker/policy/torch/device_arrays.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "ATen/Parallel.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/policy/torch/torch_network.h"

namespace ding {
namespace {

// Smaller columns are not worth pinned memory: the driver stages them.
constexpr size_t kLargeBytes = 64 << 10;
constexpr int kCopyThreads = 4;

at::Tensor HostTensor(absl::Span<const float> values) {
  // Torch has no tensors of const elements.
  auto* const data = const_cast<float*>(values.data());  // NOLINT
  return at::from_blob(data, {static_cast<int64_t>(values.size())}, at::kFloat);
}

// Copies to `host`, which is NaN if that fails.
void CopyOrNan(const at::Tensor& device, absl::Span<float> host) {
  try {
    const at::NoGradGuard no_autograd;
    HostTensor(host).copy_(device);
  } catch (const std::exception&) {
    std::fill(host.begin(), host.end(), std::numeric_limits<float>::quiet_NaN());
  }
}

class TorchAdam : public DeviceAdam {
 public:
  TorchAdam(const std::string& what, MirroredArray* parameters, MirroredArray* gradients,
            FailedSteps* failed)
      : what_(what),
        parameters_(*parameters),
        gradients_(*gradients),
        failed_(*failed),
        first_(at::zeros_like(parameters->OnDevice())),
        second_(at::zeros_like(first_)),
        one_(at::ones({}, first_.options())),
        num_steps_(at::zeros({}, first_.options())) {}

  absl::Status Step(const AdamOptions& options, int64_t num_steps, double max_norm,
                    double* norm) override {
    return GuardTorch(what_, [&] {
      const at::NoGradGuard no_autograd;
      const at::Tensor gradients = gradients_.OnDevice();
      const at::Tensor norm_there = gradients.norm();
      if (norm != nullptr) {
        *norm = ToHost(norm_there);
        if (!std::isfinite(*norm)) {
          return absl::InternalError(absl::StrCat(what_, ": the norm of the gradient is ", *norm));
        }
      } else {
        failed_.flag.add_(norm_there.isfinite().logical_not()).clamp_max_(1);
        failed_.unread = true;
      }
      constexpr double kTorchEps = 1e-6;
      const at::Tensor divisor =
          max_norm > 0 ? norm_there.add(kTorchEps).div_(max_norm).clamp_min_(1) : one_;
      Update(options, num_steps, gradients, divisor);
      parameters_.ChangedOnDevice();
      return absl::OkStatus();
    });
  }

  void Read(absl::Span<float> first, absl::Span<float> second) override {
    CopyOrNan(first_, first);
    CopyOrNan(second_, second);
  }

  void Write(absl::Span<const float> first, absl::Span<const float> second) override {
    // If the GPU is lost, the next pass says so.
    static_cast<void>(GuardTorch(what_, [&] {
      const at::NoGradGuard no_autograd;
      first_.copy_(HostTensor(first));
      second_.copy_(HostTensor(second));
      return absl::OkStatus();
    }));
  }

 private:
  void Update(const AdamOptions& options, int64_t num_steps, const at::Tensor& gradients,
              const at::Tensor& divisor) {
    const at::Tensor parameters = parameters_.OnDevice();
    if (!parameters.is_cpu()) {
      num_steps_.fill_(static_cast<double>(num_steps));
      at::_fused_adam_({parameters}, {gradients}, {first_}, {second_}, {}, {num_steps_}, options.lr,
                       options.beta1, options.beta2, options.weight_decay, options.eps,
                       /*amsgrad=*/false, /*maximize=*/false, divisor, failed_.flag);
      return;
    }
    // The fused step of libtorch 1.13 is for GPUs only.
    if (ToHost(failed_.flag) != 0) return;
    const auto steps = static_cast<double>(num_steps);
    const at::Tensor gradient = gradients.div(divisor).add_(parameters, options.weight_decay);
    first_.mul_(options.beta1).add_(gradient, 1 - options.beta1);
    second_.mul_(options.beta2).addcmul_(gradient, gradient, 1 - options.beta2);
    const at::Tensor root =
        second_.sqrt().div_(std::sqrt(1 - std::pow(options.beta2, steps))).add_(options.eps);
    parameters.addcdiv_(first_, root, -options.lr / (1 - std::pow(options.beta1, steps)));
  }

  const std::string what_;
  MirroredArray& parameters_;
  MirroredArray& gradients_;
  FailedSteps& failed_;
  at::Tensor first_;
  at::Tensor second_;
  const at::Tensor one_;
  at::Tensor num_steps_;
};

}  // namespace

MirroredArray::MirroredArray(int64_t size, at::Device device, bool copies)
    : copies_(copies), host_(Tensor::Zeros(DType::kFloat32, {size})) {
  on_host_ = HostTensor(host_.data<float>());
  on_device_ = copies ? at::zeros({size}, at::TensorOptions(device).dtype(at::kFloat)) : on_host_;
}

const at::Tensor& MirroredArray::OnDevice() {
  if (std::exchange(host_is_newer_, false)) {
    const at::NoGradGuard no_autograd;
    on_device_.copy_(on_host_);
  }
  return on_device_;
}

absl::Span<const float> MirroredArray::Read() const {
  if (device_is_newer_) CopyOrNan(on_device_, host_.mutable_data<float>());
  device_is_newer_ = false;
  return host_.data<float>();
}

absl::Span<float> MirroredArray::Change() {
  Read();
  host_is_newer_ = copies_;
  return host_.mutable_data<float>();
}

Transfers::Transfers(at::Device device, bool copies) : device_(device), copies_(copies) {}

Transfers::~Transfers() {
  if (buffers_->empty()) return;
  try {
    Wait();
  } catch (const std::exception&) {
    // Memory that is freed without its GPU ends the process.
    static_cast<void>(buffers_.release());
  }
}

void Transfers::Wait() const {
  if (device_.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
}

at::Tensor Transfers::Pinned(const at::Tensor& like) {
  if (num_used_ == buffers_->size()) buffers_->emplace_back();
  at::Tensor& buffer = (*buffers_)[num_used_++];
  const auto bytes = static_cast<int64_t>(like.nbytes());
  if (!buffer.defined() || buffer.numel() < bytes) {
    buffer = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(!device_.is_cpu()));
  }
  return buffer.narrow(0, 0, bytes).view(like.scalar_type()).view(like.sizes());
}

at::Tensor Transfers::Upload(const at::Tensor& host) {
  if (!copies_) return host;
  const at::TensorOptions options(device_);
  if (host.nbytes() < kLargeBytes) {
    return host.to(options, /*non_blocking=*/true, /*copy=*/true);
  }
  const at::Tensor pinned = Pinned(host);
  const int num_threads = at::get_num_threads();
  at::set_num_threads(std::clamp(UsableCores(), num_threads, std::max(num_threads, kCopyThreads)));
  pinned.copy_(host);
  at::set_num_threads(num_threads);
  return pinned.to(options, /*non_blocking=*/true, /*copy=*/true);
}

void Transfers::Download(const std::vector<at::Tensor>& from, const std::vector<void*>& to) {
  const at::NoGradGuard no_autograd;
  std::vector<at::Tensor> staged;
  for (const at::Tensor& tensor : from) {
    staged.push_back(Pinned(tensor));
    staged.back().copy_(tensor, /*non_blocking=*/true);
  }
  Wait();
  num_used_ = 0;
  for (size_t i = 0; i < staged.size(); ++i) {
    std::memcpy(to[i], staged[i].data_ptr(), staged[i].nbytes());
  }
}

double ToHost(const at::Tensor& scalar) { return scalar.to(at::kCPU).item<double>(); }

std::unique_ptr<DeviceAdam> MakeTorchAdam(const std::string& what, MirroredArray* parameters,
                                          MirroredArray* gradients, FailedSteps* failed) {
  return std::make_unique<TorchAdam>(what, parameters, gradients, failed);
}

}  // namespace ding
