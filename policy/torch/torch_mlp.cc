#include "ding_worker/policy/torch/torch_mlp.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/torch/torch_mlp_layers.h"
#include "ding_worker/policy/torch/torch_network.h"
#include "torch/nn/module.h"

namespace ding {
namespace {

class TorchMlp : public torch::nn::Module {
 public:
  explicit TorchMlp(const MlpStructure& structure) : layers_(structure, this) {}

  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) const {
    return layers_.Forward(inputs);
  }

 private:
  const TorchMlpLayers layers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> CreateTorchMlp(const MlpOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch) {
  DING_RETURN_IF_ERROR(RefuseNormalization(options, "network 'torch_mlp'"));
  DING_ASSIGN_OR_RETURN(const MlpStructure structure, MakeMlpStructure(options, input, output));
  const auto make_module = [structure] {
    auto module = std::make_shared<TorchMlp>(structure);
    return TorchModule{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                         return module->Forward(inputs);
                       }};
  };
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<Network> network,
      MakeTorchNetwork(absl::StrCat("mlp ", structure.Architecture()), make_module,
                       std::move(input), std::move(output), seed, torch));
  InitializeMlpParameters(structure, seed, network->parameters());
  return network;
}

}  // namespace ding
