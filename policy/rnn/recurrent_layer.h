// A recurrent cell over sequences, with hand-written forward and backward passes.
//
// Step t of all sequences has panels of its own (policy/mlp/panel_products.h). The products with
// weight_ih and the gradients of both weights are computed for all steps at once; only the product
// with weight_hh must be computed step by step:
//
//     inputs [T][panels][in] ──weight_ih──► gates [T][panels][4H]         at once
//     gates[t] += weight_hh * h[t - 1];  h[t], c[t] = cell(gates[t], c[t - 1])   for each t
//
// Ownership: borrows parameters and gradients; owns working memory, which grows with the largest
//            number of sequences and steps and is then reused.
// Threads:   thread-compatible.
// Errors:    kResourceExhausted without the memory for the rows. Sizes must fit (policy/network.h).
#ifndef DING_WORKER_POLICY_RNN_RECURRENT_LAYER_H_
#define DING_WORKER_POLICY_RNN_RECURRENT_LAYER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/policy/mlp/panel_kernels.h"
#include "ding_worker/policy/mlp/panel_products.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/cell_kernels.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {

class RecurrentLayer {
 public:
  // The spans have structure.num_parameters elements and must outlive the layer.
  RecurrentLayer(const RnnCellStructure& structure, absl::Span<const float> parameters,
                 absl::Span<float> gradients);

  // Writes h after each row to `outputs` [B * T, H], and the states as
  // RecurrentNetwork::InferSequences(). The fields of `sequences.rows` are float32 and have `in`
  // elements together.
  absl::Status Infer(const Sequences& sequences, float* outputs, absl::Span<float> states);
  // Does the same, and keeps what Backward() needs.
  absl::Status Forward(const Sequences& sequences, float* outputs, absl::Span<float> states);
  // Computes the gradients from `d_outputs` [B * T, H] of the last Forward(), and d loss / d inputs
  // [B * T, in] unless `d_inputs` is null; `d_inputs` is 0 in rows of burn-in.
  absl::Status Backward(const float* d_outputs, float* d_inputs);

 private:
  using Planes = internal_mlp::Planes;
  // The slots of a pass, whose planes have a panel for each step and panel of sequences.
  enum PassSlot { kInputs, kGates, kHiddenBefore, kCellBefore, kTanhCell };
  // The slots of the current step, whose planes have a panel for each panel of sequences.
  enum StepSlot {
    kHidden,
    kCell,
    kProducts,
    kOutputGradient,
    kHiddenGradient,
    kCellGradient,
    kBiasSums
  };

  // The sizes of a call.
  struct Layout {
    int64_t steps = 0;      // T
    int64_t sequences = 0;  // B
    int64_t panels = 0;     // of each step
  };
  // Where the states after the rows go.
  struct StateSink {
    float* states = nullptr;  // null: nowhere
    bool last_only = false;
  };

  bool is_lstm() const { return structure_.cell == RnnCell::kLstm; }
  absl::Status Run(const Sequences& sequences, int64_t steps_at_once, Planes* pass, float* outputs,
                   absl::Span<float> states);
  void LoadStates(const Sequences& sequences, const Layout& layout);
  void LoadInputs(const Sequences& sequences, const Layout& layout, int64_t first, int64_t steps,
                  const Planes& pass) const;
  // `slot` is the place of step `step` in the pass.
  void RunStep(const Sequences& sequences, const Layout& layout, int64_t step, int64_t slot,
               const Planes& pass);
  void StoreStep(const Layout& layout, int64_t step, float* outputs, const StateSink& sink) const;
  // Sets the lanes of the rows that begin episodes at `step` to 0 in the panel [width][kPanelRows].
  static void ClearFirst(absl::Span<const uint8_t> is_first, const Layout& layout, int64_t step,
                         int64_t panel, int64_t width, float* values);

  void RunStepBackward(int64_t step, const float* d_outputs);
  void ComputeWeightGradient(PassSlot source, const Planes& d_gates, float* gradient);
  void ComputeBiasGradients();
  void ComputeInputGradient(float* d_inputs);

  const RnnCellStructure structure_;
  const internal_mlp::PanelKernels& products_;
  const internal_rnn::CellKernels& cells_;
  const absl::Span<const float> parameters_;
  const absl::Span<float> gradients_;

  Planes infer_pass_;
  Planes pass_;  // of the last Forward()
  Planes step_;
  Planes d_gates_;     // by the products with weight_ih and, of an LSTM, with weight_hh
  Planes d_products_;  // by the products with weight_hh of a GRU
  Planes source_;      // blocks of columns of one operand of a weight gradient
  // The weights transposed, [in or H][gate_rows], so that the backward products, too, read them in
  // order.
  std::vector<float> weight_ih_transposed_;
  std::vector<float> weight_hh_transposed_;
  std::vector<float> last_columns_;
  std::vector<float> bias_gradients_;

  Layout layout_;  // of the last Forward(), as are the next two
  int64_t burn_in_ = 0;
  std::vector<uint8_t> is_first_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_RNN_RECURRENT_LAYER_H_
