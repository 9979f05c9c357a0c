// The recurrent network of policy/rnn as a libtorch module: the same architecture with the same parameters in
// the same places, computed by torch's LSTM and GRU and differentiated by autograd. It serves to check
// policy/rnn, and to measure libtorch.
//
// A reset by is_first, the end of burn-in and, in an LSTM, a state that is asked for end a call of libtorch:
// sequences without them are one call.
//
// This header does not include libtorch.
#ifndef DING_WORKER_POLICY_TORCH_TORCH_RNN_H_
#define DING_WORKER_POLICY_TORCH_TORCH_RNN_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/recurrent_network.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/torch/torch_device.h"

namespace ding {

// Like Rnn::Create(), with the same initial parameters.
absl::StatusOr<std::unique_ptr<RecurrentNetwork>> CreateTorchRnn(const RnnOptions& options,
                                                                 SpecPtr input, SpecPtr output,
                                                                 uint64_t seed,
                                                                 const TorchOptions& torch = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TORCH_TORCH_RNN_H_
