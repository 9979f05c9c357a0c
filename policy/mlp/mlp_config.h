// NetworkConfig to MlpOptions, for the factories of the networks that have this architecture.
#ifndef DING_WORKER_POLICY_MLP_MLP_CONFIG_H_
#define DING_WORKER_POLICY_MLP_MLP_CONFIG_H_

#include "absl/status/statusor.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/policy.pb.h"

namespace ding {

//   kInvalidArgument  `params` is set: an MLP has no parameters besides those of NetworkConfig
absl::StatusOr<MlpOptions> MlpOptionsFromConfig(const NetworkConfig& config);

}  // namespace ding

#endif  // DING_WORKER_POLICY_MLP_MLP_CONFIG_H_
