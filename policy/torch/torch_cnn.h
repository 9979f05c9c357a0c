// A convolutional network on libtorch for observations with pictures: convolutions, then the encoder and
// the heads of an MLP (drawn in cnn_structure.h). Algorithms use it like policy/mlp.
//
// This header does not include libtorch.
//
// Example:
//   CnnOptions options;
//   options.conv = {{/*channels=*/16, /*kernel=*/3}, {32, 3, /*stride=*/2}};
//   options.mlp.encoder_hidden_size = {128};
//   DING_ASSIGN_OR_RETURN(auto network, CreateTorchCnn(options, obs_spec, q_spec, seed));
#ifndef DING_WORKER_POLICY_TORCH_TORCH_CNN_H_
#define DING_WORKER_POLICY_TORCH_TORCH_CNN_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/torch/cnn_structure.h"
#include "ding_worker/policy/torch/torch_device.h"

namespace ding {

// Parameters are drawn uniformly from +-1/sqrt(inputs per output), as in torch's layers, with the streams
// (seed, "policy/init") and (seed, "policy/init/conv").
//   kInvalidArgument  errors of MakeCnnStructure()
absl::StatusOr<std::unique_ptr<Network>> CreateTorchCnn(const CnnOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_CNN_H_
