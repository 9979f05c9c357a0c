// Registers "torch_mlp"; NetworkConfig has its parameters.
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
#include "ding_worker/policy/torch/torch_mlp.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Network>> Create(const NetworkConfig& config, const SpecPtr& input,
                                                const SpecPtr& outputs, uint64_t seed) {
  DING_RETURN_IF_ERROR(RefuseConvolutions(config));
  DING_RETURN_IF_ERROR(RefuseRecurrence(config));
  DING_ASSIGN_OR_RETURN(const MlpOptions options, MlpOptionsWithEncoder(config));
  return CreateTorchMlp(options, input, outputs, seed, {config.device()});
}

DING_REGISTER(NetworkRegistry(), "torch_mlp", Create,
              "the layers of mlp on libtorch, to check and to measure");

}  // namespace
}  // namespace ding
