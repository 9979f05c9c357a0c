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

// Creates the MLP of policy/mlp as a libtorch module. Architecture, initial parameters and their
// layout are those of Mlp::Create(); libtorch computes it, and autograd differentiates it. It
// serves to check policy/mlp, which is faster, and to measure libtorch.
absl::StatusOr<std::unique_ptr<Network>> CreateTorchMlp(const MlpOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch = {});

// Creates a convolutional network on libtorch, for observations with images: convolutions, then the
// encoder and the heads of an MLP (drawn in cnn_structure.h). Algorithms use it like policy/mlp.
//
// Example:
//   CnnOptions options;
//   options.conv = {{/*channels=*/16, /*kernel=*/3}, {32, 3, /*stride=*/2}};
//   options.mlp.encoder_hidden_size = {128};
//   DING_ASSIGN_OR_RETURN(auto network, CreateTorchCnn(options, obs_spec, q_spec, seed));
//
// Parameters are drawn uniformly from +-1/sqrt(inputs per output), as in torch's layers. The random
// streams are (seed, "policy/init") and (seed, "policy/init/conv").
//   kInvalidArgument  errors of MakeCnnStructure()
absl::StatusOr<std::unique_ptr<Network>> CreateTorchCnn(const CnnOptions& options, SpecPtr input,
                                                        SpecPtr output, uint64_t seed,
                                                        const TorchOptions& torch = {});

// Creates the recurrent network of policy/rnn as a libtorch module. Architecture, initial
// parameters and their layout are those of Rnn::Create(); torch's LSTM or GRU computes it, and
// autograd differentiates it. It serves to check policy/rnn and to measure libtorch.
//
// A batch of sequences is one call of torch's LSTM or GRU if possible. The batch is split into
// several calls at each reset by is_first, at the end of burn-in and, for an LSTM, at each
// requested state.
absl::StatusOr<std::unique_ptr<RecurrentNetwork>> CreateTorchRnn(const RnnOptions& options,
                                                                 SpecPtr input, SpecPtr output,
                                                                 uint64_t seed,
                                                                 const TorchOptions& torch = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_MODELS_H_
