// Converts NetworkConfig to RnnOptions, for the factories of networks with this architecture.
#ifndef DING_WORKER_POLICY_RNN_RNN_CONFIG_H_
#define DING_WORKER_POLICY_RNN_RNN_CONFIG_H_

#include "absl/status/statusor.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {

//   kInvalidArgument  `params` or `conv` is set, which these networks do not have
absl::StatusOr<RnnOptions> RnnOptionsFromConfig(const NetworkConfig& config);

}  // namespace ding

#endif  // DING_WORKER_POLICY_RNN_RNN_CONFIG_H_
