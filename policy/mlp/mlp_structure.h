// The structure of an MLP: its layers in order, the places of their parameters, and the layers that
// the heads read. Mlp and the torch network of the same architecture share it, so that both have
// the same parameters in the same places.
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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"

namespace ding {

// Wider layers and larger networks are mistakes in a config. The limits prevent overflows in
// products of widths.
inline constexpr int64_t kMaxLayerWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxNetworkParameters = int64_t{1} << 31;

struct MlpOptions {
  enum class Activation { kRelu, kTanh };

  // The widths of the hidden layers that all heads share; if empty, the heads read the input.
  std::vector<int64_t> encoder_hidden_size;
  // The activation after each hidden layer.
  Activation activation = Activation::kRelu;
  // Whether each head has its own encoder instead of a shared one: the heads are then separate
  // networks, which have only the input in common.
  bool separate_encoders = false;
  // The width of the hidden layers of each head; 0: the width of the last encoder layer.
  int64_t head_hidden_size = 0;
  // The number of hidden layers of each head; 0: the head is linear in the output of the encoder.
  int64_t head_layer_num = 1;
  // Whether the activation follows the output layers, too, because the outputs are features.
  bool output_activation = false;
  // Whether layer normalization comes before each activation, with a weight and a bias for each
  // feature.
  bool layer_norm = false;
  // The probability, in [0, 1), with which each feature of each hidden layer is dropped, before
  // layer normalization and activation. The other features are divided by 1 - dropout. Mlp drops
  // features only in passes that have keys.
  double dropout = 0;
  // Whether every output field is value + advantage - mean advantage (Wang et al. 2016, eq. 9). In
  // a field [A, W], which has W outputs for each of A actions, each of the W outputs has its own
  // value and mean.
  bool dueling = false;
};

// One linear layer: weight [out, in] and bias [out], y = W x + b; then, if hidden, dropout, layer
// normalization with weight [out] and bias [out], and the activation.
struct MlpLayer {
  std::string name;  // "encoder/0", "q/advantage/1"
  int64_t in = 0;
  int64_t out = 0;
  bool hidden = true;
  int source = -1;            // index of the layer whose output it reads; -1: the input
  int64_t weight_offset = 0;  // in the flat parameters
  int64_t bias_offset = 0;
  int64_t norm_weight_offset = -1;  // -1: no layer normalization
  int64_t norm_bias_offset = -1;
};

// The layers, by index, that an output field is computed from.
struct MlpHead {
  int layer = -1;  // the output layer; in a dueling head the advantage layer
  int value = -1;  // the value layer of a dueling head, with W outputs; else -1
};

struct MlpStructure {
  MlpOptions options;
  SpecPtr input;
  SpecPtr output;
  int64_t input_width = 0;       // number of elements of a row over all input fields
  std::vector<MlpLayer> layers;  // each after its source
  std::vector<MlpHead> heads;    // one per field of `output`
  std::vector<ParameterInfo> parameters;
  int64_t num_parameters = 0;

  // "4-128-128-64, dueling q 64-2".
  std::string Architecture() const;
  // Architecture() and ": 33,923 parameters".
  std::string DebugString() const;
};

//   kInvalidArgument  lists all problems of the options and of the fields
absl::StatusOr<MlpStructure> MakeMlpStructure(const MlpOptions& options, SpecPtr input,
                                              SpecPtr output);

// Returns kInvalidArgument if `options` have dropout or layer normalization, which only Mlp has.
// `network` is the name of the other network.
absl::Status RefuseNormalization(const MlpOptions& options, absl::string_view network);

// Draws weights and biases uniformly from +-1/sqrt(in), like torch's nn.Linear, layer by layer with
// the stream (seed, "policy/init"). Layer normalization begins with weights of 1 and biases of 0.
void InitializeMlpParameters(const MlpStructure& structure, uint64_t seed,
                             absl::Span<float> parameters);
// Does the same with the next numbers of `rng`.
void InitializeMlpParameters(const MlpStructure& structure, Rng* rng, absl::Span<float> parameters);
// Draws `values` uniformly from +-1/sqrt(fan_in).
void InitializeUniformly(int64_t fan_in, Rng* rng, absl::Span<float> values);

}  // namespace ding

#endif  // DING_WORKER_POLICY_MLP_MLP_STRUCTURE_H_
