// The structure of a recurrent network: an encoder, a cell with memory, and heads, with the places
// of their parameters. Rnn and the torch network of the same architecture share it, so that both
// have the same parameters in the same places.
//
//     input ── encoder/0 ── encoder/1 ── ... ── rnn ──┬── <head>/0 ── ... ── output field <head>
//                                               ▲ │   └── <head>/...
//                                               └─┘ state
//
// Without encoder layers the cell reads the input. The cell has torch's weights, with the rows of
// the gates in torch's order (i, f, g, o of nn.LSTM; r, z, n of nn.GRU):
//
//     rnn/weight_ih  [4H, in] (GRU: [3H, in])     LSTM: rnn/bias [4H], torch's bias_ih + bias_hh
//     rnn/weight_hh  [4H, H]  (GRU: [3H, H])      GRU:  rnn/bias_ih [3H], rnn/bias_hh [3H]
//
// Threads: immutable after creation, so thread-safe.
#ifndef DING_WORKER_POLICY_RNN_RNN_STRUCTURE_H_
#define DING_WORKER_POLICY_RNN_RNN_STRUCTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"

namespace ding {

enum class RnnCell { kLstm, kGru };

struct RnnOptions {
  RnnCell cell = RnnCell::kLstm;
  int64_t hidden_size = 64;  // H, the number of features of the cell's output, at least 1
  // Encoder and heads. head_hidden_size 0 is the width of the cell: H. output_activation and
  // separate_encoders must be false.
  MlpOptions mlp;
};

// The cell and the places of its parameters, from the first of them on.
struct RnnCellStructure {
  RnnCell cell = RnnCell::kLstm;
  int64_t in = 0;
  int64_t hidden = 0;
  int64_t weight_ih_offset = 0;
  int64_t weight_hh_offset = 0;
  int64_t bias_offset = 0;     // of the LSTM's bias, or the GRU's bias_ih
  int64_t bias_hh_offset = 0;  // GRU only
  int64_t num_parameters = 0;

  // The number of rows of the weights: 4H or 3H.
  int64_t gate_rows() const { return (cell == RnnCell::kLstm ? 4 : 3) * hidden; }
  // LSTM: h and then c; GRU: h.
  int64_t state_size() const { return (cell == RnnCell::kLstm ? 2 : 1) * hidden; }
};

struct RnnStructure {
  SpecPtr input;
  SpecPtr output;
  // The parts, in the order of their parameters. The encoder has one output field; it is unset if
  // it has no layers. The heads have one input field [H].
  std::optional<MlpStructure> encoder;
  RnnCellStructure cell;
  MlpStructure heads;
  std::vector<ParameterInfo> parameters;
  int64_t num_parameters = 0;
  std::string description;  // "lstm 64 in 4-64, q 64-64-2: 33,410 parameters"
};

//   kInvalidArgument  lists all problems of the options and of the fields
absl::StatusOr<RnnStructure> MakeRnnStructure(const RnnOptions& options, SpecPtr input,
                                              SpecPtr output);

// Draws the parameters like torch's nn.Linear, nn.LSTM and nn.GRU (the cell's uniformly from
// +-1/sqrt(H)), in the order of the parts, with the stream (seed, "policy/init").
void InitializeRnnParameters(const RnnStructure& structure, uint64_t seed,
                             absl::Span<float> parameters);

}  // namespace ding

#endif  // DING_WORKER_POLICY_RNN_RNN_STRUCTURE_H_
