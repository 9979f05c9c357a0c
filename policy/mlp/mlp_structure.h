// What a plain MLP is made of: its layers in order, where their parameters lie, and how the heads
// read them. Mlp computes with it; the torch network of the same architecture is built from it, so
// that the two have the same parameters at the same places.
//
//     input ── encoder/0 ── encoder/1 ── ... ──┬── <head>/0 ── ... ── output field <head>
//                                              └── <head>/... (one branch per output field;
//                                                  a dueling one is two: advantage and value)
//
// Threads: immutable after creation, so thread-safe.
#ifndef DING_WORKER_POLICY_MLP_MLP_STRUCTURE_H_
#define DING_WORKER_POLICY_MLP_MLP_STRUCTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"

namespace ding {

struct MlpOptions {
  enum class Activation { kRelu, kTanh };

  // Widths of the hidden layers that all heads share; empty: the heads read the input.
  std::vector<int64_t> encoder_hidden_size;
  // After each hidden layer.
  Activation activation = Activation::kRelu;
  // Width of the hidden layers of each head; 0: the width of the last encoder layer.
  int64_t head_hidden_size = 0;
  // Number of hidden layers of each head; 0: it is linear in the encoder's output.
  int64_t head_layer_num = 1;
  // Every output field is value + advantage - mean advantage (Wang et al. 2016, eq. 9).
  bool dueling = false;
};

// One linear layer: weight [out, in] and bias [out], y = W x + b, then the activation if hidden.
struct MlpLayer {
  std::string name;  // "encoder/0", "q/advantage/1"
  int64_t in = 0;
  int64_t out = 0;
  bool hidden = true;
  int source = -1;            // index of the layer whose output it reads; -1: the input
  int64_t weight_offset = 0;  // in the flat parameters
  int64_t bias_offset = 0;
};

// Where an output field comes from: indices of layers.
struct MlpHead {
  int layer = -1;  // of a dueling head: the advantages
  int value = -1;  // of a dueling head; else -1
};

struct MlpStructure {
  MlpOptions options;
  SpecPtr input;
  SpecPtr output;
  int64_t input_width = 0;       // elements of a row, all input fields together
  std::vector<MlpLayer> layers;  // each after its source
  std::vector<MlpHead> heads;    // one per field of `output`
  std::vector<ParameterInfo> parameters;
  int64_t num_parameters = 0;

  // "4-128-128-64, dueling q 64-2".
  std::string Architecture() const;
  // The same and ": 33,923 parameters".
  std::string DebugString() const;
};

//   kInvalidArgument  every problem of the options and of the fields, in one message
absl::StatusOr<MlpStructure> MakeMlpStructure(const MlpOptions& options, SpecPtr input,
                                              SpecPtr output);

// The start of torch's nn.Linear: weights and biases uniform in +-1/sqrt(in), layer by layer from
// the stream (seed, "policy/init").
void InitializeMlpParameters(const MlpStructure& structure, uint64_t seed,
                             absl::Span<float> parameters);

}  // namespace ding

#endif  // DING_WORKER_POLICY_MLP_MLP_STRUCTURE_H_
