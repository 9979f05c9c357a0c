// Registers "mlp"; NetworkConfig has its parameters.
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/network_config.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Network>> CreateMlp(const NetworkConfig& config,
                                                   const SpecPtr& input, const SpecPtr& outputs,
                                                   uint64_t seed) {
  DING_RETURN_IF_ERROR(RefuseDevices(config));
  DING_RETURN_IF_ERROR(RefuseConvolutions(config));
  DING_RETURN_IF_ERROR(RefuseRecurrence(config));
  DING_ASSIGN_OR_RETURN(const MlpOptions options, MlpOptionsWithEncoder(config));
  return Mlp::Create(options, input, outputs, seed);
}

DING_REGISTER(NetworkRegistry(), "mlp", CreateMlp,
              "fully connected layers, with kernels of our own; dueling heads");

}  // namespace
}  // namespace ding
