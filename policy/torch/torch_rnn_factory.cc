// Registers "torch_rnn"; NetworkConfig has its parameters.
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/rnn/rnn_config.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/torch/torch_rnn.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Network>> Create(const NetworkConfig& config, const SpecPtr& input,
                                                const SpecPtr& outputs, uint64_t seed) {
  DING_ASSIGN_OR_RETURN(const RnnOptions options, RnnOptionsFromConfig(config));
  return CreateTorchRnn(options, input, outputs, seed, {config.device()});
}

DING_REGISTER(NetworkRegistry(), "torch_rnn", Create,
              "the layers of rnn on libtorch: to check rnn and to measure libtorch");

}  // namespace
}  // namespace ding
