// The MLP of policy/mlp as a libtorch module: the same architecture with the same parameters in the same
// places, computed by libtorch and differentiated by autograd. It serves to check policy/mlp, which is
// faster, and to measure libtorch.
//
// This header does not include libtorch.
#ifndef DING_WORKER_POLICY_TORCH_TORCH_MLP_H_
#define DING_WORKER_POLICY_TORCH_TORCH_MLP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/torch/torch_device.h"

namespace ding {

// Like Mlp::Create(), with the same initial parameters.
absl::StatusOr<std::unique_ptr<Network>> CreateTorchMlp(const MlpOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_MLP_H_
