#include "ding_worker/policy/torch/torch_mlp_layers.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ding_worker/data/spec.h"

namespace ding {
TorchMlpLayers::TorchMlpLayers(const MlpStructure& structure, torch::nn::Module* module)
    : structure_(structure) {
  for (const MlpLayer& layer : structure_.layers) {
    weights_.push_back(module->register_parameter(absl::StrCat(layer.name, "/weight"),
                                                  at::zeros({layer.out, layer.in})));
    biases_.push_back(
        module->register_parameter(absl::StrCat(layer.name, "/bias"), at::zeros({layer.out})));
  }
}

std::vector<at::Tensor> TorchMlpLayers::Forward(const std::vector<at::Tensor>& inputs) const {
  std::vector<at::Tensor> values = {FlattenFields(inputs)};
  for (size_t i = 0; i < structure_.layers.size(); ++i) {
    const MlpLayer& layer = structure_.layers[i];
    at::Tensor value = at::linear(values[layer.source + 1], weights_[i], biases_[i]);
    values.push_back(layer.hidden ? Activate(structure_.options.activation, value) : value);
  }
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < structure_.heads.size(); ++i) {
    const MlpHead& head = structure_.heads[i];
    at::Tensor output = values[head.layer + 1];
    if (head.value >= 0) {
      const at::Tensor value = values[head.value + 1].unsqueeze(1);  // [B, 1, W]
      output = output.view({output.size(0), -1, value.size(2)});     // [B, A, W]
      output = value + output - output.mean(1, /*keepdim=*/true);
    }
    std::vector<int64_t> sizes = {output.size(0)};
    const Shape& shape = structure_.output->field(static_cast<int>(i)).shape;
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    outputs.push_back(output.view(sizes));
  }
  return outputs;
}

at::Tensor Activate(MlpOptions::Activation activation, const at::Tensor& value) {
  return activation == MlpOptions::Activation::kTanh ? at::tanh(value) : at::relu(value);
}

at::Tensor FlattenFields(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& input : inputs) flat.push_back(input.reshape({input.size(0), -1}));
  return flat.size() == 1 ? flat[0] : at::cat(flat, 1);
}

}  // namespace ding
