// Networks on libtorch: MLP, CNN, RNN. This header does not include libtorch.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TORCH_TORCH_MODELS_H_
#define DING_WORKER_POLICY_TORCH_TORCH_MODELS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/torch/cnn_structure.h"
#include "ding_worker/policy/torch/torch_device.h"

namespace ding {

// The MLP of policy/mlp as a libtorch module: the same architecture with the same parameters in the
// same places, computed by libtorch and differentiated by autograd. Its purpose is to check
// policy/mlp, which is faster, and to measure libtorch.
//
// Like Mlp::Create(), with the same initial parameters.
absl::StatusOr<std::unique_ptr<Network>> CreateTorchMlp(const MlpOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch = {});

// A convolutional network on libtorch for observations with pictures: convolutions, then the
// encoder and the heads of an MLP (drawn in cnn_structure.h). Algorithms use it like policy/mlp.
//
// Example:
//   CnnOptions options;
//   options.conv = {{/*channels=*/16, /*kernel=*/3}, {32, 3, /*stride=*/2}};
//   options.mlp.encoder_hidden_size = {128};
//   DING_ASSIGN_OR_RETURN(auto network, CreateTorchCnn(options, obs_spec, q_spec, seed));
//
// Parameters are drawn uniformly from +-1/sqrt(inputs per output), as in torch's layers, with the
// streams (seed, "policy/init") and (seed, "policy/init/conv").
//   kInvalidArgument  errors of MakeCnnStructure()
absl::StatusOr<std::unique_ptr<Network>> CreateTorchCnn(const CnnOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch = {});

// The recurrent network of policy/rnn as a libtorch module: the same architecture with the same
// parameters in the same places, computed by torch's LSTM and GRU and differentiated by autograd.
// Its purpose is to check policy/rnn, and to measure libtorch.
//
// Each of these ends a call of libtorch: a reset by is_first, the end of burn-in and, in an LSTM, a
// requested state. Sequences without them are one call.
//
// Like Rnn::Create(), with the same initial parameters.
absl::StatusOr<std::unique_ptr<RecurrentNetwork>> CreateTorchRnn(const RnnOptions& options,
                                                                 SpecPtr input, SpecPtr output,
                                                                 uint64_t seed,
                                                                 const TorchOptions& torch = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_MODELS_H_
