// Registers "rnn"; NetworkConfig has its parameters.
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/network_config.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Network>> CreateRnn(const NetworkConfig& config,
                                                   const SpecPtr& input, const SpecPtr& outputs,
                                                   uint64_t seed) {
  DING_RETURN_IF_ERROR(RefuseDevices(config));
  DING_ASSIGN_OR_RETURN(const RnnOptions options, RnnOptionsFromConfig(config));
  return Rnn::Create(options, input, outputs, seed);
}

DING_REGISTER(NetworkRegistry(), "rnn", CreateRnn,
              "the layers of mlp with an LSTM or a GRU between encoder and heads");

}  // namespace
}  // namespace ding
