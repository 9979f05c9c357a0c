// Converts NetworkConfig to the options of Mlp and Rnn, for the factories of networks with these
// architectures, alone or after further layers.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_NETWORK_CONFIG_H_
#define DING_WORKER_POLICY_NETWORK_CONFIG_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {

// Returns the options of an Mlp.
//   kInvalidArgument  `params` is set: these networks have no parameters besides NetworkConfig's
absl::StatusOr<MlpOptions> MlpOptionsFromConfig(const NetworkConfig& config);
// Does the same for a network whose heads read the output of the encoder: if heads are as wide as
// the last encoder layer, and the config has no such layer, the encoder has layers of 128, 128 and
// 64 (as in DI-engine).
absl::StatusOr<MlpOptions> MlpOptionsWithEncoder(const NetworkConfig& config);

// Returns kInvalidArgument if `config` has another device than the CPU: networks without libtorch
// need the CPU.
absl::Status RefuseDevices(const NetworkConfig& config);
// Returns kInvalidArgument if `config` has convolutions, which an MLP does not support.
absl::Status RefuseConvolutions(const NetworkConfig& config);
// Returns kInvalidArgument if `config` has a recurrent layer, for networks that do not support it.
absl::Status RefuseRecurrence(const NetworkConfig& config);

// Returns the options of an Rnn.
//   kInvalidArgument  `params` or `conv` is set, which these networks do not have
absl::StatusOr<RnnOptions> RnnOptionsFromConfig(const NetworkConfig& config);

}  // namespace ding

#endif  // DING_WORKER_POLICY_NETWORK_CONFIG_H_
