#include "ding_worker/policy/torch/torch_network.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>

#include "ATen/ATen.h"
#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/device/device_network.h"
#include "ding_worker/policy/torch/device_arrays.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "torch/csrc/autograd/autograd.h"

namespace ding {
namespace {

at::ScalarType ScalarTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return at::kBool;
    case DType::kUint8:
      return at::kByte;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt64:
      return at::kLong;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
  }
  return at::kFloat;
}

// Returns a tensor [rows, ...shape of the field] that shares the memory of the column.
at::Tensor TensorOf(const ColumnsView& view, int field) {
  const FieldSpec& spec = view.spec().field(field);
  std::vector<int64_t> sizes = {view.rows()};
  sizes.insert(sizes.end(), spec.shape.begin(), spec.shape.end());
  // Torch has no tensors of const elements.
  auto* const data = const_cast<std::byte*>(view.raw_column(field));  // NOLINT
  return at::from_blob(data, sizes, at::TensorOptions(ScalarTypeOf(spec.dtype)));
}

class TorchNetwork : public Network, public DeviceNetwork {
 public:
  TorchNetwork(absl::string_view name, std::function<TorchModule()> make_module, SpecPtr input,
               SpecPtr output, uint64_t seed, const TorchOptions& options)
      : name_(name),
        what_(absl::StrCat("torch network '", name, "'")),
        make_module_(std::move(make_module)),
        input_(std::move(input)),
        output_(std::move(output)),
        seed_(seed),
        options_(options),
        device_(options.device),
        copies_(options.copies || !device_.is_cpu()),
        transfers_(device_, copies_) {}

  // Makes the module and moves its parameters into the flat storage. It must be called once, first.
  absl::Status Init() {
    return GuardTorch(what_, [&] {
      module_ = SeedAndMakeModule();
      if (module_.module == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(what_, ": no module"));
      }
      module_.module->eval();
      DING_RETURN_IF_ERROR(CheckBuffers());
      DING_RETURN_IF_ERROR(CollectParameters());
      FlattenParameters();
      return absl::OkStatus();
    });
  }

  const SpecPtr& input_spec() const override { return input_; }
  const SpecPtr& output_spec() const override { return output_; }
  absl::Span<const ParameterInfo> parameter_info() const override { return info_; }
  absl::Span<float> parameters() override { return parameters_.Change(); }
  absl::Span<const float> parameters() const override { return parameters_.Read(); }
  absl::Span<float> gradients() override { return gradients_.Change(); }

  bool on_device() const override { return copies_; }
  absl::StatusOr<std::unique_ptr<DeviceAdam>> MakeAdam() override {
    std::unique_ptr<DeviceAdam> adam;
    DING_RETURN_IF_ERROR(GuardTorch(what_, [&] {
      adam = MakeTorchAdam(what_, &parameters_, &gradients_, &failed_);
      return absl::OkStatus();
    }));
    return adam;
  }
  absl::StatusOr<double> GradientNorm() override {
    double norm = 0;
    DING_RETURN_IF_ERROR(GuardTorch(what_, [&] {
      norm = ToHost(gradients_.OnDevice().norm());
      return absl::OkStatus();
    }));
    return norm;
  }
  bool Approach(Network* online, float theta) override {
    auto* const other = dynamic_cast<TorchNetwork*>(online);
    if (other == nullptr || !other->copies_ || other->device_ != device_) return false;
    const absl::Status status = GuardTorch(what_, [&] {
      const at::NoGradGuard no_autograd;
      const at::Tensor& from = other->parameters_.OnDevice();
      if (theta == 1) {
        parameters_.OnDevice().copy_(from);
      } else {
        parameters_.OnDevice().mul_(1 - theta).add_(from, theta);
      }
      parameters_.ChangedOnDevice();
      return absl::OkStatus();
    });
    if (approached_.ok()) approached_ = status;
    return true;
  }

  absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) override {
    DING_RETURN_IF_ERROR(CheckCall(input, output));
    if (input.rows() == 0) return absl::OkStatus();
    ScopedFlushDenormals flush;
    return GuardTorch(what_, [&] {
      const c10::InferenceMode no_autograd;
      parameters_.OnDevice();
      const std::vector<at::Tensor> outputs = module_.forward(OnDevice(input, input_->size()));
      DING_RETURN_IF_ERROR(CheckOutputs(outputs, input.rows()));
      return CopyOutputs(outputs, output);
    });
  }

  absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) override {
    DING_RETURN_IF_ERROR(CheckCall(input, output));
    outputs_.clear();
    forward_rows_ = -1;
    if (input.rows() > 0) {
      ScopedFlushDenormals flush;
      DING_RETURN_IF_ERROR(GuardTorch(what_, [&] {
        const at::AutoGradMode with_autograd(true);
        parameters_.OnDevice();
        std::vector<at::Tensor> outputs = module_.forward(OnDevice(input, input_->size()));
        DING_RETURN_IF_ERROR(CheckOutputs(outputs, input.rows()));
        DING_RETURN_IF_ERROR(CopyOutputs(outputs, output));
        outputs_ = std::move(outputs);
        return absl::OkStatus();
      }));
    }
    forward_rows_ = input.rows();
    return absl::OkStatus();
  }

  absl::Status Backward(const ColumnsView& d_output) override {
    DING_RETURN_IF_ERROR(CheckFirstFields(*output_, d_output.spec(), "torch output gradient"));
    if (d_output.rows() != forward_rows_) {
      return absl::FailedPreconditionError(absl::StrCat(
          what_, ": Backward of ", d_output.rows(), " rows ",
          forward_rows_ < 0 ? std::string("without a Forward")
                            : absl::StrCat("after a Forward of ", forward_rows_, " rows")));
    }
    forward_rows_ = -1;
    const std::vector<at::Tensor> outputs = std::move(outputs_);
    outputs_.clear();
    ScopedFlushDenormals flush;
    return GuardTorch(what_, [&] {
      gradients_.OnDevice().zero_();
      gradients_.ChangedOnDevice();
      if (d_output.rows() > 0) {
        AccumulateGradients(outputs, OnDevice(d_output, output_->size()));
      }
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::unique_ptr<Network>> Clone() const override {
    auto clone =
        std::make_unique<TorchNetwork>(name_, make_module_, input_, output_, seed_, options_);
    DING_RETURN_IF_ERROR(clone->Init());
    if (clone->num_parameters_ != num_parameters_) {
      return absl::InternalError(
          absl::StrCat(what_, ": the module of the clone has ", clone->num_parameters_,
                       " parameters, that of the original ", num_parameters_));
    }
    absl::c_copy(parameters(), clone->parameters().begin());
    return std::unique_ptr<Network>(std::move(clone));
  }

  std::string info() const override {
    return absl::StrCat("torch ", name_, ": ", num_parameters_, " parameters",
                        device_.is_cpu() ? "" : absl::StrCat(" on ", options_.device));
  }

 private:
  // The process has one torch generator: the lock prevents another network from drawing between
  // seeding and the end of the initialization.
  TorchModule SeedAndMakeModule() const {
    static auto* const mutex = new Mutex;
    MutexLock lock(mutex);
    at::manual_seed(Rng::DeriveSeed(seed_, "policy/init"));
    return make_module_();
  }

  absl::Status CheckBuffers() const {
    const auto buffers = module_.module->named_buffers();
    if (buffers.is_empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what_, ": the module has buffer '", buffers[0].key(),
                     "'; only parameters are trained, saved and copied"));
  }

  absl::Status CollectParameters() {
    std::unordered_set<const void*> seen;  // A parameter that two modules share counts once.
    for (const auto& item : module_.module->named_parameters()) {
      const at::Tensor& parameter = item.value();
      if (!parameter.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      if (parameter.scalar_type() != at::kFloat || !parameter.device().is_cpu()) {
        return absl::InvalidArgumentError(absl::StrCat(
            what_, ": parameter '", item.key(), "' is ", c10::toString(parameter.scalar_type()),
            " on ", parameter.device().str(), ", expected Float on cpu"));
      }
      const Shape shape(parameter.sizes().begin(), parameter.sizes().end());
      info_.push_back({absl::StrReplaceAll(item.key(), {{".", "/"}}), shape, num_parameters_});
      num_parameters_ += parameter.numel();
      module_parameters_.push_back(parameter);
    }
    if (num_parameters_ > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(what_, ": the module has no parameters"));
  }

  void FlattenParameters() {
    const at::NoGradGuard no_autograd;
    parameters_ = MirroredArray(num_parameters_, device_, copies_);
    gradients_ = MirroredArray(num_parameters_, device_, copies_);
    failed_.flag = at::zeros({}, gradients_.OnDevice().options());
    for (size_t i = 0; i < info_.size(); ++i) {
      at::Tensor& parameter = module_parameters_[i];
      const auto view_of = [&](const at::Tensor& flat) {
        return flat.narrow(0, info_[i].offset, parameter.numel()).view(parameter.sizes());
      };
      at::Tensor value = view_of(parameters_.OnDevice());
      value.copy_(parameter);
      gradient_views_.push_back(view_of(gradients_.OnDevice()));
      parameter.set_data(value);
      parameter.mutable_grad() = gradient_views_[i];
    }
    parameters_.ChangedOnDevice();
  }

  // Returns a tensor [B, ...] for each of the first columns. On the CPU it shares their memory.
  std::vector<at::Tensor> OnDevice(const ColumnsView& view, int num_fields) {
    std::vector<at::Tensor> tensors;
    for (int field = 0; field < num_fields; ++field) {
      tensors.push_back(transfers_.Upload(TensorOf(view, field)));
    }
    return tensors;
  }

  absl::Status CheckCall(const ColumnsView& input, const MutableColumnsView& output) const {
    DING_RETURN_IF_ERROR(CheckFirstFields(*input_, input.spec(), "torch input"));
    DING_RETURN_IF_ERROR(CheckFirstFields(*output_, output.spec(), "torch output"));
    if (output.rows() >= input.rows()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        what_, ": ", input.rows(), " input rows, but room for ", output.rows(), " output rows"));
  }

  absl::Status CheckOutputs(const std::vector<at::Tensor>& outputs, int64_t rows) const {
    if (static_cast<int>(outputs.size()) != output_->size()) {
      return absl::InternalError(
          absl::StrCat(what_, ": ", outputs.size(), " outputs, expected ", output_->size()));
    }
    for (int field = 0; field < output_->size(); ++field) {
      const FieldSpec& spec = output_->field(field);
      Shape expected = {rows};
      expected.insert(expected.end(), spec.shape.begin(), spec.shape.end());
      const at::Tensor& found = outputs[field];
      if (found.defined() && found.scalar_type() == at::kFloat &&
          found.sizes() == at::IntArrayRef(expected.data(), expected.size())) {
        continue;
      }
      return absl::InternalError(absl::StrCat(
          what_, ": output '", spec.name, "' is ",
          found.defined() ? absl::StrCat(c10::toString(found.scalar_type()),
                                         ShapeString({found.sizes().data(), found.sizes().size()}))
                          : std::string("undefined"),
          ", expected Float", ShapeString(expected)));
    }
    return absl::OkStatus();
  }

  // Also returns the errors of earlier steps and target updates, which did not wait for the GPU.
  absl::Status CopyOutputs(std::vector<at::Tensor> outputs, const MutableColumnsView& to) {
    std::vector<void*> places;
    for (int field = 0; field < output_->size(); ++field) places.push_back(to.raw_column(field));
    float failed = 0;
    const bool reads_failed = std::exchange(failed_.unread, false);
    if (reads_failed) {
      outputs.push_back(failed_.flag);
      places.push_back(&failed);
    }
    transfers_.Download(outputs, places);
    DING_RETURN_IF_ERROR(std::exchange(approached_, absl::OkStatus()));
    if (failed == 0) return absl::OkStatus();
    failed_.flag.zero_();
    return absl::InternalError(absl::StrCat(
        what_,
        ": the gradient of an earlier step was not finite; steps since then changed nothing"));
  }

  void AccumulateGradients(const std::vector<at::Tensor>& outputs,
                           const std::vector<at::Tensor>& d_outputs) {
    std::vector<at::Tensor> roots;
    std::vector<at::Tensor> d_roots;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;  // The output depends on no parameter.
      roots.push_back(outputs[i]);
      d_roots.push_back(d_outputs[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, d_roots);
    // Autograd adds in place to an existing gradient. If a module has removed it, copy the new one
    // back.
    for (size_t i = 0; i < gradient_views_.size(); ++i) {
      at::Tensor& gradient = module_parameters_[i].mutable_grad();
      if (gradient.defined() && gradient.data_ptr() == gradient_views_[i].data_ptr()) continue;
      const at::NoGradGuard no_autograd;
      if (gradient.defined()) gradient_views_[i].copy_(gradient);
      gradient = gradient_views_[i];
    }
  }

  const std::string name_;
  const std::string what_;  // begins messages
  const std::function<TorchModule()> make_module_;
  const SpecPtr input_;
  const SpecPtr output_;
  const uint64_t seed_;
  const TorchOptions options_;
  const at::Device device_;
  const bool copies_;  // whether the device has a memory of its own
  Transfers transfers_;
  TorchModule module_;

  std::vector<ParameterInfo> info_;
  int64_t num_parameters_ = 0;
  MirroredArray parameters_;
  MirroredArray gradients_;
  FailedSteps failed_;
  absl::Status approached_;                    // of Approach(), until a pass has returned it
  std::vector<at::Tensor> module_parameters_;  // views of parameters_
  std::vector<at::Tensor> gradient_views_;     // of gradients_

  std::vector<at::Tensor> outputs_;  // of the last Forward(), with their graph
  int64_t forward_rows_ = -1;        // -1: no Forward() since the last Backward()
};

}  // namespace

absl::Status TorchError(const std::string& what, absl::string_view message) {
  const absl::string_view first_line = message.substr(0, message.find('\n'));
  if (absl::StrContains(message, "out of memory") || absl::StrContains(message, "ALLOC_FAILED")) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what,
        ": the memory of the GPU is full, expected room for the network and a batch: make "
        "the batch or the network smaller, or end other programs on this GPU (",
        first_line, ")"));
  }
  if (absl::StartsWith(message, "CUDA error") || absl::StartsWith(message, "cuDNN error")) {
    return absl::UnavailableError(absl::StrCat(
        what,
        ": the GPU has failed or is lost, and with it what the network learned since the "
        "last checkpoint: see 'nvidia-smi', and resume the run (",
        first_line, ")"));
  }
  return absl::InternalError(absl::StrCat(what, ": ", message));
}

absl::StatusOr<std::unique_ptr<Network>> MakeTorchNetwork(absl::string_view name,
                                                          std::function<TorchModule()> make_module,
                                                          SpecPtr input, SpecPtr output,
                                                          uint64_t seed,
                                                          const TorchOptions& options) {
  DING_RETURN_IF_ERROR(CheckTorchDevice(options.device));
  [[maybe_unused]] static const bool once = (SetTorchThreads(1), true);
  auto network = std::make_unique<TorchNetwork>(name, std::move(make_module), std::move(input),
                                                std::move(output), seed, options);
  DING_RETURN_IF_ERROR(network->Init());
  return std::unique_ptr<Network>(std::move(network));
}

}  // namespace ding
