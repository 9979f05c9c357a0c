// A differentiable function with flat parameters: from observation columns to named output columns.
//
// It separates algorithms from networks. An algorithm (policy/dqn, ...) computes a loss and its
// gradient by the outputs, whatever the network is. A network computes the outputs and the
// gradients of its parameters: policy/mlp by code written by hand, policy/torch by autograd for any
// module.
//
//     Forward(input) -> outputs          loss(outputs, batch) -> d loss / d outputs
//     Backward(d outputs) -> gradients() optimizer: parameters() -= f(gradients())
//
// The parameters are one flat float32 vector, and the gradients another. So an optimizer, the
// update of a target network, or an all-reduce is one loop over memory.
//
// Ownership: spans and specs live as long as the network, and their addresses do not change.
// Threads:   thread-compatible: Infer() and Forward() use working memory of the network.
// Errors:    kInvalidArgument if input or output columns do not have the layout of input_spec() and
//            output_spec().
#ifndef DING_WORKER_POLICY_NETWORK_H_
#define DING_WORKER_POLICY_NETWORK_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

class ThreadTeam;  // base/thread.h

// The place of one weight or bias in the flat parameters.
struct ParameterInfo {
  std::string name;  // "encoder/0/weight"
  Shape shape;
  int64_t offset = 0;  // in elements
};

class Network {
 public:
  virtual ~Network() = default;

  // The fields that Forward() and Infer() read; they must be the first fields of the input.
  virtual const SpecPtr& input_spec() const = 0;
  // The float32 fields that both write: "q" [A], or "logit" [A] and "value" [], ...
  virtual const SpecPtr& output_spec() const = 0;

  virtual absl::Span<const ParameterInfo> parameter_info() const = 0;
  virtual absl::Span<float> parameters() = 0;
  virtual absl::Span<const float> parameters() const = 0;
  virtual absl::Span<float> gradients() = 0;

  // Writes the outputs for `input` [B, ...] to rows [0, B) of `output`; keeps nothing for
  // Backward().
  virtual absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) = 0;
  // Does the same, and keeps what Backward() needs. The memory of `input` must not change until
  // Backward(), because a network may read it again instead of copying it.
  virtual absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) = 0;
  // Computes d loss / d parameters from `d_output`, d loss / d outputs [B, ...] of the last
  // Forward() in the layout of output_spec(), and overwrites gradients(). Each Forward() allows one
  // Backward(). kFailedPrecondition unless a Forward() of the same number of rows came after the
  // last Backward().
  virtual absl::Status Backward(const ColumnsView& d_output) = 0;

  // The next passes may use the threads of `team` beside the caller's thread, where that is faster;
  // this changes no byte of their results. Null, which is the default: they use the caller's thread
  // alone. The team must outlive the last of these passes. Returns false if the network never uses
  // a team.
  virtual bool set_thread_team(ThreadTeam* /*team*/) { return false; }

  // Returns a network of the same structure with its own copy of the parameters: a target network.
  virtual absl::StatusOr<std::unique_ptr<Network>> Clone() const = 0;
  // Describes the network for the log: "mlp 4-128-128-64, dueling 2: 33,923 parameters".
  virtual std::string info() const = 0;
};

// B sequences of T rows.
struct Sequences {
  ColumnsView rows;    // [B * T]; the first fields are input_spec()
  int64_t length = 1;  // T
  // [B, state_size()]: the state before the first row of each sequence; empty: 0.
  absl::Span<const float> state;
  // [B * T]: not 0 if the row begins an episode, so that the state before it is 0. Empty: no row
  // does.
  absl::Span<const uint8_t> is_first;
  // The number of rows, below T, at the beginning of each sequence that only warm up the state.
  // Backward() ignores their output gradients, and stops gradients at the state after them.
  int64_t burn_in = 0;
};

// A network with memory: the outputs for a row depend on the rows before it, through a recurrent
// state.
//
//     state before row 0 ──► row 0 ──► state ──► row 1 ──► state ──► ... row T - 1 ──► state after it
//                              │                   │                      │
//                              ▼                   ▼                      ▼
//                           outputs             outputs                outputs
//
// The state is a row of state_size() floats. Algorithms do not interpret it: they store it with the
// rows (kColumnRnnState) and pass it back. It is 0 at the beginning of an episode.
//
// Sequences are batches of [B * T] rows with row t of sequence b at b * T + t, as buffers draw them
// (data/sample_columns.h). The functions of Network treat each row as the beginning of an episode:
// Infer() and Forward() compute sequences of one row with state 0.
//
// Ownership, threads, errors: as Network.
class RecurrentNetwork : public Network {
 public:
  // The number of floats of the state of one row.
  virtual int64_t state_size() const = 0;

  // As Infer() and Forward() of Network, for sequences. They also write the state after each row to
  // `states` [B * T, state_size()], or only after the last row of each sequence if `states` has the
  // size of [B, state_size()], or no states if it is empty. `states` may be the memory of
  // `sequences.state` if T is 1. Backward() follows ForwardSequences() as it follows Forward(),
  // with the output gradients of all B * T rows.
  //   kInvalidArgument  the sizes do not fit together
  virtual absl::Status InferSequences(const Sequences& sequences, const MutableColumnsView& output,
                                      absl::Span<float> states) = 0;
  virtual absl::Status ForwardSequences(const Sequences& sequences,
                                        const MutableColumnsView& output,
                                        absl::Span<float> states) = 0;

  absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) override {
    return InferSequences(SingleRows(input), output, {});
  }
  absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) override {
    return ForwardSequences(SingleRows(input), output, {});
  }

 private:
  static Sequences SingleRows(const ColumnsView& input) {
    Sequences rows;
    rows.rows = input;
    return rows;
  }
};

// Returns `network` as a recurrent network, or null if it is not recurrent.
inline RecurrentNetwork* AsRecurrent(Network* network) {
  return dynamic_cast<RecurrentNetwork*>(network);
}

// A network whose outputs depend on random numbers besides input and parameters: noisy layers
// (policy/noisy_network.h), or sampled fractions of quantiles
// (policy/distributional/iqn_network.h).
//
// All rows of a batch use the same random numbers, which stay until the next Draw() or UseMeans().
// The network does not draw by itself. Each mode of a policy draws from its own stream before a
// pass, so that equal seeds give equal bytes. A new network is in the state after UseMeans().
//
// Ownership, threads, errors: as Network.
class RandomNetwork : public Network {
 public:
  // Replaces the random numbers by new ones.
  virtual void Draw(Rng* rng) = 0;
  // Replaces them by fixed numbers, for acting without exploration.
  virtual void UseMeans() = 0;
};

// Returns `network` as a random network, or null if it is not random.
inline RandomNetwork* AsRandom(Network* network) { return dynamic_cast<RandomNetwork*>(network); }

// Checks the sizes of sequences for implementations of RecurrentNetwork.
//   kInvalidArgument  the sizes of `sequences` and of `states`, where the states after the rows are
//                     written, do not fit together, or do not fit states of `state_size` floats
absl::Status CheckSequences(const Sequences& sequences, int64_t state_size,
                            absl::Span<const float> states);

// Saves and loads the parameters of a network as named tensors: "model/encoder/0/weight", ...
//
// Loading is strict: the scope must have every parameter with its shape and finite values, and
// nothing else. All tensors are read and checked before the first parameter is changed.

// The scope of a policy's model in a state.
inline constexpr char kModelScope[] = "model";

// Writes `values`, with the layout `info`, as tensors "<scope>/<name>".
absl::Status SaveParameters(absl::Span<const ParameterInfo> info, absl::Span<const float> values,
                            absl::string_view scope, StateWriter* writer);

// Reads the tensors of SaveParameters() into `values`. The scope may also have the names `others`,
// which other code reads.
//   kInvalidArgument  lists all parameters that are missing, unknown or not finite, or have another
//                     dtype or shape; `values` is unchanged
absl::Status LoadParameters(absl::Span<const ParameterInfo> info, absl::string_view scope,
                            StateReader* reader, absl::Span<float> values,
                            const std::set<std::string>& others = {});

// Loads the model of a policy without parameters: kInvalidArgument if it has any.
absl::Status LoadEmptyModel(StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_POLICY_NETWORK_H_
