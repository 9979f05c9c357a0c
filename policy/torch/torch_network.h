// Makes a Network of a libtorch module of any shape: convolutions, recurrent cells, attention. It
// is the same to an algorithm as policy/mlp, at the price of libtorch (0.7 s at start-up) and of
// autograd.
//
//     columns ──from_blob──► module ──► outputs ──copied──► columns
//     d outputs ──autograd──► gradients, accumulated in place in views of one flat tensor
//
// The parameters of the module are moved into one flat array and become views of it, and so do
// their gradients: both may be read and written from outside like those of any Network. Parameter
// "conv.weight" of the module is "conv/weight" here.
//
// Not supported, and refused with a sentence: modules with buffers (running statistics, which
// nobody would save), and parameters that are not float32 on the CPU. The module is put into
// evaluation mode once, so that dropout does nothing: its random numbers would be torch's own.
//
// This header includes libtorch (some 10 s to compile). Code that only wants the networks that are
// here already includes policy/torch/torch_mlp.h instead, or finds them by name in the registry.
//
// Ownership: the network owns the module. The module sees the columns of a call where they lie and
//            must not change them in place.
// Threads:   thread-compatible. libtorch and OpenBLAS are set to one thread per operation when the
//            first network is made; SetTorchThreads() in torch_threads.h changes that.
// Errors:    what the module or libtorch throws becomes kInternal with its message; outputs of
//            another number, dtype or shape than output_spec() says are kInternal, too.
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
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "torch/nn/module.h"
#include "torch/nn/pimpl.h"

namespace ding {

struct TorchModule {
  std::shared_ptr<torch::nn::Module> module;
  // One tensor [B, ...shape] per field of the input spec to one float32 tensor per field of the
  // output spec.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> forward;
};

// A module with `at::Tensor forward(at::Tensor)`, for one input field and one output field.
template <typename Module>
TorchModule WrapTorchModule(const std::shared_ptr<Module>& module) {
  return {module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
            return std::vector<at::Tensor>{module->forward(inputs.at(0))};
          }};
}
// The same from a holder such as torch::nn::Sequential.
template <typename Module>
TorchModule WrapTorchModule(const torch::nn::ModuleHolder<Module>& holder) {
  return WrapTorchModule(holder.ptr());
}

// `make_module` is called for this network and for each of its clones; it must build the same
// architecture every time. What it draws from torch's generator, such as the initial parameters of
// torch's own layers, depends on `seed` only. `name` stands in messages.
//   kInvalidArgument  the module has buffers, no parameters, or parameters of another type
//   kInternal         make_module threw
absl::StatusOr<std::unique_ptr<Network>> MakeTorchNetwork(absl::string_view name,
                                                          std::function<TorchModule()> make_module,
                                                          SpecPtr input, SpecPtr output,
                                                          uint64_t seed);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_NETWORK_H_
