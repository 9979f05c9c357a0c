// Wraps a libtorch module (convolutions, recurrent cells, attention, ...) as a Network. Algorithms
// use it like the networks of policy/mlp. Its costs are the start-up time of libtorch (0.7 s) and
// the overhead of autograd.
//
//     columns ──from_blob──► module ──► outputs ──copied──► columns
//     d loss / d outputs ──autograd──► gradients
//
// All parameters of the module are moved into one flat array, and their gradients into another. The
// parameters of the module become views of these arrays, so the optimizer and the checkpoint read
// and write them like the parameters of any Network. The parameter "conv.weight" of the module has
// the name "conv/weight" here.
//
// With a GPU (TorchOptions::device), the network is a DeviceNetwork: both flat arrays are in GPU
// memory, and the optimizer works there. They are copied to the CPU only when somebody reads them.
// Each call copies its inputs to the GPU and its outputs back. A call waits for its outputs, and
// for nothing else.
//
// MakeTorchNetwork() requires that
//   - the module has no buffers (such as running statistics): only parameters are saved
//   - all parameters are created as float32 on the CPU
//
// It sets the module to evaluation mode, which turns dropout off: the state of torch's random
// generator, from which dropout draws, is not saved.
//
// This header includes libtorch, which takes about 10 s to compile. Code that only uses the
// existing networks should include policy/torch/torch_models.h, or create them by name
// (create_network()).
//
// Ownership: the network owns the module. On the CPU, the input tensors share the memory of the
//            input columns; the module must not write to them.
// Threads:   thread-compatible. Creating the first network sets libtorch and OpenBLAS to one thread
//            per operation; SetTorchThreads() (policy/torch/torch_device.h) changes this later.
// Errors:    an exception of the module or of libtorch becomes the error of the call, with the code
//            of TorchError(). kInternal if an output has another dtype or shape than output_spec()
//            says, or if the number of outputs differs.
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

// Converts the message of a libtorch exception to an error: kResourceExhausted if the memory of a
// GPU is full, kUnavailable if the GPU has failed, kInternal otherwise. The error begins with
// `what`.
absl::Status TorchError(const std::string& what, absl::string_view message);

// Calls `body`, which returns absl::Status and may call libtorch, and converts exceptions to errors
// that begin with `what`. Unlike CallUser(), it omits the stack trace of a c10::Error.
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
  // The forward pass. Takes one tensor [B, ...shape] per field of the input spec, and returns one
  // float32 tensor [B, ...shape] per field of the output spec.
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

// Creates a network whose messages contain `name`. It calls `make_module` for the network and again
// for each clone; every call must build the same architecture. Before each call it seeds torch's
// generator from `seed`, so the initial parameters of torch's layers depend on `seed`. It then
// moves the parameters to the device. Tensors that the module creates in a call must be on the
// device of its inputs.
//   kInvalidArgument  the module has buffers, no parameters, or parameters that are not float32 on
//                     the CPU; also the errors of CheckTorchDevice()
//   kInternal         make_module threw an exception
absl::StatusOr<std::unique_ptr<Network>> MakeTorchNetwork(absl::string_view name,
                                                          std::function<TorchModule()> make_module,
                                                          SpecPtr input, SpecPtr output,
                                                          uint64_t seed,
                                                          const TorchOptions& options = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_NETWORK_H_
