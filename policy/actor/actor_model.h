// The content of a checkpoint that an acting policy needs, as plain data: spaces, layers with their
// weights, and the statistics of observations. Actors compute with it, and exports write it in
// other formats.
//
//   observation ── without mask ── normalizers ── convolutions ── encoder ── [cell] ──┬── head: layers ──┐
//                                                                                    └── head: value ───┴── output
//
// With a distribution of returns, the output of an action is its mean. C51 and Rainbow: the head
// has `size` logits for each action. QR-DQN: the last layer returns the means, because the mean of
// linear layers is a linear layer. IQN: the head runs on the product of the encoder's output and
// each row of `fraction_features`.
//
// Weights have the layout of the checkpoint: [out, in], [out channels, in channels, kernel,
// kernel].
//
// Threads: plain data; thread-safe while no thread changes it.
#ifndef DING_WORKER_POLICY_ACTOR_ACTOR_MODEL_H_
#define DING_WORKER_POLICY_ACTOR_ACTOR_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/actor/action_head.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/torch/cnn_structure.h"

namespace ding {

// y = W x + b, then the activation of the model if `hidden`.
struct ModelLayer {
  std::string name;  // "encoder/0"
  int64_t in = 0;
  int64_t out = 0;
  bool hidden = true;
  std::vector<float> weight;  // [out, in]
  std::vector<float> bias;
};

struct ModelConvolution {
  ConvLayer layer;
  std::vector<float> weight;  // [out channels, in channels, kernel, kernel]
  std::vector<float> bias;
};

// policy/rnn/rnn_structure.h says how the rows are ordered.
struct ModelCell {
  RnnCell cell = RnnCell::kLstm;
  int64_t in = 0;
  int64_t hidden = 0;
  std::vector<float> weight_ih;  // [gates * hidden, in]
  std::vector<float> weight_hh;  // [gates * hidden, hidden]
  std::vector<float> bias;       // of an LSTM, or the bias_ih of a GRU
  std::vector<float> bias_hh;    // of a GRU

  int64_t gates() const { return cell == RnnCell::kLstm ? 4 : 3; }
  // The number of floats in the state of a row: h, then c of an LSTM.
  int64_t state_size() const { return (cell == RnnCell::kLstm ? 2 : 1) * hidden; }
};

struct ModelHead {
  std::string name;                // of the output field
  std::vector<ModelLayer> layers;  // in a dueling head, the layers of the advantage
  std::vector<ModelLayer> value;   // in a dueling head, the layers of the value; else empty

  int64_t width() const { return layers.empty() ? 0 : layers.back().out; }
  // The number of outputs for each action of a dueling head. Each output has its own value and
  // mean.
  int64_t per_action() const { return value.empty() ? 1 : value.back().out; }
};

struct ActorModel {
  ActorDescription description;
  std::string env;      // its name
  double env_step = 0;  // at which the checkpoint was saved
  SpecPtr observation;
  SpecPtr action;
  SpecPtr inputs;                 // the observation without its mask
  std::optional<int> mask_field;  // index in the observation
  SpecPtr outputs;                // of the network, as far as the action needs them

  std::vector<RunningNormalizer> normalizers;               // one for each input, or none
  std::vector<std::vector<ModelConvolution>> convolutions;  // of each input; empty for a vector
  std::vector<ModelLayer> encoder;
  std::optional<ModelCell> cell;
  std::vector<float> fraction_features;  // [N, D] of IQN, D features of the encoder; else empty
  std::vector<ModelHead> heads;          // one for each field of `outputs`

  int64_t state_size() const { return cell.has_value() ? cell->state_size() : 0; }
  bool tanh() const { return description.mlp.activation == MlpOptions::Activation::kTanh; }
};

struct LoadedActor {
  ActorModel model;
  std::unique_ptr<ActionHead> head;
};

// Loads the model of the checkpoint at `path` (CheckpointFolder): the folder of a checkpoint, or
// the folder of a run, which stands for its best checkpoint. Errors name `path`:
//   kNotFound, kDataLoss  it does not exist, or it is truncated or corrupted
//   kFailedPrecondition   another major version wrote it; or an earlier version without the
//                         description of the actor; or an actor cannot play its policy
//   kInvalidArgument      its parameters do not fit the description: lists all that do not fit
//   kUnimplemented        a later version wrote it, with a head that this version does not have
absl::StatusOr<LoadedActor> LoadActorModel(const std::string& path);

// Does the same for the manifest of a checkpoint and its component "model"; errors do not name the
// checkpoint.
absl::StatusOr<LoadedActor> ReadActorModel(const CheckpointInfo& info, StateReader* model);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_ACTOR_MODEL_H_
