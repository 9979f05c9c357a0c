// Recurrent networks without torch: an encoder, an LSTM or a GRU, and one or more heads, optionally
// dueling. The forward and backward passes are written by hand, on the kernels of Mlp.
//
//     obs ──► encoder 64 ──► LSTM 64 ──┬──► advantage 64-2 ──┐
//                             ▲  │     └──► value 64-1 ──────┴──► "q" [2] = v + a - mean(a)
//                             └──┘ state: h [64], c [64]
//
// The state of a GRU is h [H]; the state of an LSTM is h [H], then c [H]. cell_kernels.h has the
// formulas, rnn_structure.h the parameters. Backward() goes back through all T steps
// (backpropagation through time).
//
// The outputs for a sequence do not depend on the other sequences of the batch. Computing a
// sequence at once, or in parts with the state passed on, gives the same bytes. Equal inputs and
// parameters give equal bytes on the same type of CPU. An Rnn uses one thread.
//
// Ownership: owns parameters, gradients and working memory. Working memory grows with the largest
//            batch of sequences and is then reused: no call allocates while sizes repeat.
// Threads:   thread-compatible.
// Errors:    as in policy/network.h; kResourceExhausted if there is no memory for a batch.
//
// Example:
//   RnnOptions options;
//   options.mlp.encoder_hidden_size = {64};
//   DING_ASSIGN_OR_RETURN(auto network, Rnn::Create(options, obs_spec, q_spec, /*seed=*/0));
#ifndef DING_WORKER_POLICY_RNN_RNN_H_
#define DING_WORKER_POLICY_RNN_RNN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/recurrent_layer.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {

class Rnn : public RecurrentNetwork {
 public:
  // `output` has one field per head. InitializeRnnParameters() draws the parameters.
  //   kInvalidArgument  lists all problems of options, input and output
  static absl::StatusOr<std::unique_ptr<Rnn>> Create(const RnnOptions& options, SpecPtr input,
                                                     SpecPtr output, uint64_t seed);

  const SpecPtr& input_spec() const override { return structure_.input; }
  const SpecPtr& output_spec() const override { return structure_.output; }
  absl::Span<const ParameterInfo> parameter_info() const override { return structure_.parameters; }
  absl::Span<float> parameters() override { return parameters_.mutable_data<float>(); }
  absl::Span<const float> parameters() const override { return parameters_.data<float>(); }
  absl::Span<float> gradients() override { return gradients_.mutable_data<float>(); }

  int64_t state_size() const override { return structure_.cell.state_size(); }
  absl::Status InferSequences(const Sequences& sequences, const MutableColumnsView& output,
                              absl::Span<float> states) override;
  absl::Status ForwardSequences(const Sequences& sequences, const MutableColumnsView& output,
                                absl::Span<float> states) override;
  absl::Status Backward(const ColumnsView& d_output) override;

  absl::StatusOr<std::unique_ptr<Network>> Clone() const override;
  std::string info() const override;

 private:
  // Columns between the parts, [B * T] rows.
  struct Between {
    ScratchColumns encoded;  // from the encoder to the cell
    ScratchColumns hidden;   // from the cell to the heads
  };

  explicit Rnn(RnnStructure structure);
  Between MakeBetween() const;

  absl::Status Check(const Sequences& sequences, const MutableColumnsView& output,
                     absl::Span<const float> states) const;
  // Returns `d_output` with zeros in the rows of burn-in.
  absl::StatusOr<ColumnsView> WithoutBurnIn(const ColumnsView& d_output);

  const RnnStructure structure_;
  Tensor parameters_;
  Tensor gradients_;
  // The parts work on `parameters_` and `gradients_`.
  const std::unique_ptr<Mlp> encoder_;  // null: the cell reads the input
  RecurrentLayer layer_;
  const std::unique_ptr<Mlp> heads_;

  Between infer_;
  Between forward_;   // of the last forward pass
  Between gradient_;  // by the values of `forward_`
  ScratchColumns d_output_;
  int64_t forward_rows_ = -1;  // rows of the last forward pass; -1: none since the last Backward()
  int64_t forward_length_ = 1;
  int64_t forward_burn_in_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_RNN_RNN_H_
