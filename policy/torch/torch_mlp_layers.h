// The layers of an MlpStructure in a libtorch module: alone in torch_mlp, after convolutions in
// torch_cnn, before and after a recurrent layer in torch_rnn.
//
// This header includes libtorch; only the modules of this folder include it.
//
// Ownership: the module owns the parameters and must outlive the layers.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_TORCH_TORCH_MLP_LAYERS_H_
#define DING_WORKER_POLICY_TORCH_TORCH_MLP_LAYERS_H_

#include <vector>

#include "ATen/ATen.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "torch/nn/module.h"

namespace ding {

class TorchMlpLayers {
 public:
  // Registers the parameters, all 0, in the order of structure.parameters.
  TorchMlpLayers(const MlpStructure& structure, torch::nn::Module* module);

  // Computes one tensor [B, ...] per field of structure.output from one per field of
  // structure.input.
  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) const;

 private:
  const MlpStructure structure_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> biases_;
};

// Applies the activation of hidden layers.
at::Tensor Activate(MlpOptions::Activation activation, const at::Tensor& value);
// Puts the elements of all fields [B, ...] side by side: [B, elements].
at::Tensor FlattenFields(const std::vector<at::Tensor>& inputs);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_MLP_LAYERS_H_
