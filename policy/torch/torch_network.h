// Makes a Network from any libtorch module: convolutions, recurrent cells, attention. Algorithms
// use it like policy/mlp; it costs the start-up of libtorch (0.7 s) and autograd.
//
//     columns ──from_blob──► module ──► outputs ──copied──► columns
//     d outputs ──autograd──► gradients, accumulated in place in views of one flat tensor
//
// The parameters of the module and their gradients become views of two flat arrays, which can be
// read and written like the parameters of any Network. Parameter "conv.weight" of the module is
// "conv/weight" here.
//
// On a GPU (TorchOptions::device) it is a DeviceNetwork: the two flat arrays live on the GPU, where
// the optimizer works, and are copied to the CPU when somebody reads them there. Each call copies
// inputs to the GPU and outputs back; only outputs are waited for.
//
// MakeTorchNetwork() refuses modules with buffers (running statistics, which would not be saved),
// and parameters that are not made as float32 on the CPU. It sets the module to evaluation mode, so
// that dropout, which would use torch's random numbers, does nothing.
//
// This header includes libtorch (some 10 s to compile). Code that only uses the existing networks
// should include policy/torch/torch_models.h instead, or find them by name in the registry.
//
// Ownership: the network owns the module. The module reads the columns of a call in place and must
//            not change them.
// Threads:   thread-compatible. The first network sets libtorch and OpenBLAS to one thread per
//            operation; SetTorchThreads() in policy/torch/torch_device.h changes that.
// Errors:    exceptions of the module or of libtorch become kInternal, or as TorchError() says; so do
//            outputs of another number, dtype or shape than in output_spec().
//
// Example:
//   auto make = [] {
//     return WrapTorchModule(torch::nn::Sequential(torch::nn::Linear(4, 64), torch::nn::ReLU(),
//                                                  torch::nn::Linear(64, 2)));
//   };
//   DING_ASSIGN_OR_RETURN(auto network, MakeTorchNetwork("my_net", make, obs_spec, q_spec, seed));
#ifndef DING_WORKER_POLICY_TORCH_TORCH_NETWORK_H_
#define DING_WORKER_POLICY_TORCH_TORCH_NETWORK_H_

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "c10/util/Exception.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "torch/nn/module.h"
#include "torch/nn/pimpl.h"

namespace ding {

// Returns the error of an exception of libtorch: kResourceExhausted if the memory of a GPU is full,
// kUnavailable if the GPU has failed, kInternal for all others.
absl::Status TorchError(const std::string& what, absl::string_view message);

// Runs `body`, a function that returns absl::Status and may call libtorch, and turns exceptions
// into errors that begin with `what`. It differs from CallUser() in that it leaves out the stack
// trace of a c10::Error.
template <typename Body>
absl::Status GuardTorch(const std::string& what, Body body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    return TorchError(what, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  } catch (...) {
    return absl::InternalError(
        absl::StrCat(what, ": threw an exception that is not a std::exception"));
  }
}

struct TorchModule {
  std::shared_ptr<torch::nn::Module> module;
  // Computes one float32 tensor per field of the output spec from one tensor [B, ...shape] per
  // field of the input spec.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> forward;
};

// Wraps a module with `at::Tensor forward(at::Tensor)`, for one input field and one output field.
template <typename Module>
TorchModule WrapTorchModule(const std::shared_ptr<Module>& module) {
  return {module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
            return std::vector<at::Tensor>{module->forward(inputs.at(0))};
          }};
}
// Does the same for a holder such as torch::nn::Sequential.
template <typename Module>
TorchModule WrapTorchModule(const torch::nn::ModuleHolder<Module>& holder) {
  return WrapTorchModule(holder.ptr());
}

// Creates a network. `make_module` is called for it and for each of its clones and must build the
// same architecture every time. torch's generator, which draws the initial parameters of torch's
// layers, is seeded from `seed`. `name` is used in messages. The parameters are moved to the
// device; tensors that the module makes in a call must be made where its inputs are.
//   kInvalidArgument  the module has buffers, no parameters, or parameters of another type; errors
//                     of CheckTorchDevice()
//   kInternal         make_module threw an exception
absl::StatusOr<std::unique_ptr<Network>> MakeTorchNetwork(absl::string_view name,
                                                          std::function<TorchModule()> make_module,
                                                          SpecPtr input, SpecPtr output,
                                                          uint64_t seed,
                                                          const TorchOptions& options = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_NETWORK_H_
