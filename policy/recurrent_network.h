// A network with memory: the outputs for a row depend on the rows before it, through a recurrent state.
//
//     state before row 0 ──► row 0 ──► state ──► row 1 ──► state ──► ... row T - 1 ──► state after it
//                              │                   │                      │
//                              ▼                   ▼                      ▼
//                           outputs             outputs                outputs
//
// The state is a row of state_size() floats, opaque to the algorithms: they store it with the rows
// (kColumnRnnState) and pass it back. It is 0 at the beginning of an episode.
//
// Sequences are batches of [B * T] rows with row t of sequence b at b * T + t, as buffers draw them
// (data/sample_columns.h). As a Network, it computes single rows at the beginnings of episodes: Infer() and
// Forward() are sequences of one row with state 0.
//
// Ownership, threads, errors: as policy/network.h.
#ifndef DING_WORKER_POLICY_RECURRENT_NETWORK_H_
#define DING_WORKER_POLICY_RECURRENT_NETWORK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/policy/network.h"

namespace ding {

// B sequences of T rows.
struct Sequences {
  ColumnsView rows;    // [B * T]; its first fields are those of input_spec()
  int64_t length = 1;  // T
  // [B, state_size()]: the state before the first row of each sequence; empty: 0.
  absl::Span<const float> state;
  // [B * T]: where it is not 0, the state before the row is 0, because the row begins an episode. Empty:
  // nowhere.
  absl::Span<const uint8_t> is_first;
  // So many rows at the beginning of each sequence, below T, only warm up the state: Backward() ignores their
  // output gradients, and no gradient flows through the state after them into them.
  int64_t burn_in = 0;
};

class RecurrentNetwork : public Network {
 public:
  // The number of floats of the state of one row.
  virtual int64_t state_size() const = 0;

  // As Infer() and Forward() of Network, for sequences. They also write the state after each row to `states`
  // [B * T, state_size()], or only after the last row of each sequence if `states` has the size of
  // [B, state_size()], or no states if it is empty. `states` may be the memory of `sequences.state` if T is 1.
  // Backward() follows ForwardSequences() as it follows Forward(), with the output gradients of all B * T rows.
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

// Returns `network` as a recurrent one, or null if it is not.
inline RecurrentNetwork* AsRecurrent(Network* network) {
  return dynamic_cast<RecurrentNetwork*>(network);
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_RECURRENT_NETWORK_H_
