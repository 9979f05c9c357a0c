// Registers "torch_cnn"; NetworkConfig has its parameters.
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_config.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/torch/torch_cnn.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Network>> Create(const NetworkConfig& config, const SpecPtr& input,
                                                const SpecPtr& outputs, uint64_t seed) {
  DING_RETURN_IF_ERROR(RefuseRecurrence(config));
  CnnOptions options;
  DING_ASSIGN_OR_RETURN(options.mlp, MlpOptionsWithEncoder(config));
  for (const ConvConfig& conv : config.conv()) {
    options.conv.push_back({conv.channels(), conv.kernel(), conv.stride(), conv.padding()});
  }
  return CreateTorchCnn(options, input, outputs, seed, {config.device()});
}

DING_REGISTER(NetworkRegistry(), "torch_cnn", Create,
              "convolutions before the layers of mlp, on libtorch: for pictures");

}  // namespace
}  // namespace ding
