#include "ding_worker/policy/torch/torch_cnn.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/torch/torch_mlp_layers.h"
#include "ding_worker/policy/torch/torch_network.h"
#include "torch/nn/module.h"

namespace ding {
namespace {

constexpr double kWhite = 255;  // the largest value of a pixel in bytes

class TorchCnn : public torch::nn::Module {
 public:
  explicit TorchCnn(const CnnStructure& structure)
      : structure_(structure), mlp_(structure.mlp, this) {
    for (const std::vector<ConvLayer>& layers : structure_.conv) {
      std::vector<Conv> convs;
      for (const ConvLayer& layer : layers) {
        const int64_t kernel = layer.options.kernel;
        convs.push_back(
            {register_parameter(absl::StrCat(layer.name, "/weight"),
                                at::zeros({layer.out[0], layer.in[0], kernel, kernel})),
             register_parameter(absl::StrCat(layer.name, "/bias"), at::zeros({layer.out[0]}))});
      }
      convs_.push_back(std::move(convs));
    }
  }

  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) const {
    std::vector<at::Tensor> features;
    for (size_t field = 0; field < inputs.size(); ++field) {
      at::Tensor value = inputs[field];
      if (value.scalar_type() == at::kByte) value = value.to(at::kFloat).div_(kWhite);
      for (size_t i = 0; i < convs_[field].size(); ++i) {
        const ConvOptions& options = structure_.conv[field][i].options;
        value = Activate(structure_.mlp.options.activation,
                         at::conv2d(value, convs_[field][i].weight, convs_[field][i].bias,
                                    options.stride, options.padding));
      }
      features.push_back(std::move(value));
    }
    return mlp_.Forward(features);
  }

 private:
  struct Conv {
    at::Tensor weight;
    at::Tensor bias;
  };

  const CnnStructure structure_;
  const TorchMlpLayers mlp_;
  std::vector<std::vector<Conv>> convs_;  // in the order of structure_.conv
};

// `parameters` are the concatenated parameters of all convolutions.
void InitializeConvolutions(const CnnStructure& structure, uint64_t seed,
                            absl::Span<float> parameters) {
  Rng rng(seed, "policy/init/conv");
  for (const std::vector<ConvLayer>& layers : structure.conv) {
    for (const ConvLayer& layer : layers) {
      const int64_t inputs = layer.in[0] * layer.options.kernel * layer.options.kernel;
      const double bound = 1 / std::sqrt(static_cast<double>(inputs));
      const size_t size = layer.out[0] * (inputs + 1);
      for (float& value : parameters.first(size)) {
        value = static_cast<float>(rng.Uniform(-bound, bound));
      }
      parameters.remove_prefix(size);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> CreateTorchCnn(const CnnOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch) {
  DING_ASSIGN_OR_RETURN(const CnnStructure structure, MakeCnnStructure(options, input, output));
  const auto make_module = [structure] {
    auto module = std::make_shared<TorchCnn>(structure);
    return TorchModule{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                         return module->Forward(inputs);
                       }};
  };
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<Network> network,
      MakeTorchNetwork(absl::StrCat("cnn ", structure.Architecture()), make_module,
                       std::move(input), std::move(output), seed, torch));
  const absl::Span<float> parameters = network->parameters();
  InitializeMlpParameters(structure.mlp, seed, parameters.first(structure.mlp.num_parameters));
  InitializeConvolutions(structure, seed, parameters.subspan(structure.mlp.num_parameters));
  return network;
}

}  // namespace ding
