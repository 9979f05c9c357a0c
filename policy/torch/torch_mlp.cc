#include "ding_worker/policy/torch/torch_mlp.h"

#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/torch/torch_network.h"
#include "torch/nn/module.h"

namespace ding {
namespace {

class TorchMlp : public torch::nn::Module {
 public:
  explicit TorchMlp(const MlpStructure& structure) : structure_(structure) {
    for (const MlpLayer& layer : structure_.layers) {
      weights_.push_back(register_parameter(absl::StrCat(layer.name, "/weight"),
                                            at::zeros({layer.out, layer.in})));
      biases_.push_back(
          register_parameter(absl::StrCat(layer.name, "/bias"), at::zeros({layer.out})));
    }
  }

  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) {
    std::vector<at::Tensor> values = {Flatten(inputs)};
    for (size_t i = 0; i < structure_.layers.size(); ++i) {
      const MlpLayer& layer = structure_.layers[i];
      at::Tensor value = at::linear(values[layer.source + 1], weights_[i], biases_[i]);
      values.push_back(layer.hidden ? Activate(value) : value);
    }
    std::vector<at::Tensor> outputs;
    for (size_t i = 0; i < structure_.heads.size(); ++i) {
      const MlpHead& head = structure_.heads[i];
      at::Tensor output = values[head.layer + 1];
      if (head.value >= 0) {
        output = values[head.value + 1] + output - output.mean(1, /*keepdim=*/true);
      }
      std::vector<int64_t> sizes = {output.size(0)};
      const Shape& shape = structure_.output->field(static_cast<int>(i)).shape;
      sizes.insert(sizes.end(), shape.begin(), shape.end());
      outputs.push_back(output.view(sizes));
    }
    return outputs;
  }

 private:
  static at::Tensor Flatten(const std::vector<at::Tensor>& inputs) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& input : inputs) flat.push_back(input.view({input.size(0), -1}));
    return flat.size() == 1 ? flat[0] : at::cat(flat, 1);
  }
  at::Tensor Activate(const at::Tensor& value) const {
    const bool tanh = structure_.options.activation == MlpOptions::Activation::kTanh;
    return tanh ? at::tanh(value) : at::relu(value);
  }

  const MlpStructure structure_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> biases_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> CreateTorchMlp(const MlpOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed) {
  DING_ASSIGN_OR_RETURN(const MlpStructure structure, MakeMlpStructure(options, input, output));
  const auto make_module = [structure] {
    auto module = std::make_shared<TorchMlp>(structure);
    return TorchModule{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                         return module->Forward(inputs);
                       }};
  };
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network,
                        MakeTorchNetwork(absl::StrCat("mlp ", structure.Architecture()),
                                         make_module, std::move(input), std::move(output), seed));
  InitializeMlpParameters(structure, seed, network->parameters());
  return network;
}

}  // namespace ding
