// Multi-layer perceptrons without torch: an encoder and one or more heads, optionally dueling. The
// forward and backward passes are written by hand, on kernels for small batches.
//
//     obs ──► encoder 128-128-64 ──┬──► advantage 64-2 ──┐
//                                  └──► value 64-1 ──────┴──► "q" [2] = v + a - mean(a)
//
// The input is the concatenation of the flattened fields of input_spec(); each output field is a
// head.
//
// The hidden layers can have dropout (Srivastava et al. 2014) and layer normalization (Ba et al.
// 2016). The order is that of DroQ's critics (Hiraoka et al. 2022): W x + b, dropout, layer
// normalization, activation.
//
// The outputs for a row do not depend on the other rows of the batch. Equal inputs and parameters
// give equal bytes on the same type of CPU. Between types of CPU, results differ in the last
// digits, because the widest vectors of each are used (panel_kernels.h). An Mlp uses one thread, or
// the threads of set_thread_team(): each thread computes the passes of some rows, and the gradients
// of some weights.
//
// Ownership: owns parameters, gradients and working memory. Working memory grows with the largest
//            batch of Forward() and is then reused: no call allocates while batch sizes repeat.
// Threads:   thread-compatible.
// Errors:    as in policy/network.h; kResourceExhausted if there is no memory for a batch.
//
// Example:
//   MlpOptions options;
//   options.encoder_hidden_size = {128, 128, 64};
//   options.dueling = true;
//   DING_ASSIGN_OR_RETURN(auto network, Mlp::Create(options, obs_spec, q_spec, /*seed=*/0));
#ifndef DING_WORKER_POLICY_MLP_MLP_H_
#define DING_WORKER_POLICY_MLP_MLP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/mlp/normalization_kernels.h"
#include "ding_worker/policy/mlp/panel_kernels.h"
#include "ding_worker/policy/mlp/panel_products.h"
#include "ding_worker/policy/network.h"

namespace ding {

class Mlp : public Network {
 public:
  // `output` has one field per head. InitializeMlpParameters() draws the parameters.
  //   kInvalidArgument  lists all problems of options, input and output
  static absl::StatusOr<std::unique_ptr<Mlp>> Create(const MlpOptions& options, SpecPtr input,
                                                     SpecPtr output, uint64_t seed);

  // Creates a part of a larger network, which owns `parameters` and `gradients`. Both have
  // structure.num_parameters elements and must outlive the Mlp. CreatePart() does not initialize
  // them.
  static std::unique_ptr<Mlp> CreatePart(MlpStructure structure, absl::Span<float> parameters,
                                         absl::Span<float> gradients);

  const SpecPtr& input_spec() const override { return structure_.input; }
  const SpecPtr& output_spec() const override { return structure_.output; }
  absl::Span<const ParameterInfo> parameter_info() const override { return structure_.parameters; }
  absl::Span<float> parameters() override { return parameters_; }
  absl::Span<const float> parameters() const override { return parameters_; }
  absl::Span<float> gradients() override { return gradients_; }

  // Turns dropout on for the next passes. The mask of each row and layer is a function of
  // row_keys[row]: rows with equal keys have equal masks. These passes must have as many rows as
  // there are keys. The keys must stay unchanged until the last of these passes, and until the
  // Backward() of the last Forward(). Empty (the default): nothing is dropped.
  void set_dropout_keys(absl::Span<const uint64_t> row_keys) { dropout_keys_ = row_keys; }

  absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) override;
  absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) override;
  absl::Status Backward(const ColumnsView& d_output) override {
    return Backward(d_output, /*d_input=*/{});
  }
  // Does the same, and writes d loss / d input to `d_input` [B, number of input elements]: the
  // elements of all input fields side by side. An empty `d_input` costs nothing.
  //   kInvalidArgument  `d_input` has another size
  absl::Status Backward(const ColumnsView& d_output, absl::Span<float> d_input);
  // Writes only d loss / d input, from input element `first` on, to `d_input` [B, number of input
  // elements - first]. It does not change gradients(), and takes half the time of Backward().
  //   kInvalidArgument  `d_input` has another size
  absl::Status BackwardToInput(const ColumnsView& d_output, int64_t first,
                               absl::Span<float> d_input);

  bool set_thread_team(ThreadTeam* team) override;

  // The clone of a part owns its parameters.
  absl::StatusOr<std::unique_ptr<Network>> Clone() const override;
  std::string info() const override;

 private:
  using Planes = internal_mlp::Planes;
  // Panels [begin, end) of a batch.
  struct Panels {
    int64_t begin = 0;
    int64_t end = 0;
  };

  Mlp(MlpStructure structure, absl::Span<float> parameters, absl::Span<float> gradients);
  static std::unique_ptr<Mlp> CreateOwning(MlpStructure structure);

  // Returns the number of threads that share a pass of `rows` rows.
  int NumThreads(int64_t rows) const;
  // Calls work(panels, thread) for parts of the panels of `rows` rows, by NumThreads() threads.
  void ForPanels(int64_t rows, absl::FunctionRef<void(const Panels& panels, int thread)> work);

  // Compute a pass of some panels. `keys` are the dropout keys of the rows of `input`, or empty.
  // `keep`: whether to keep what a Backward() needs.
  void Run(const ColumnsView& input, absl::Span<const uint64_t> keys, bool keep,
           const Panels& panels, const Planes& values, const MutableColumnsView& output) const;
  void LoadInput(const ColumnsView& input, const Panels& panels, const Planes& values) const;
  void RunLayer(int layer, int64_t rows, absl::Span<const uint64_t> keys, bool keep,
                const Panels& panels, const Planes& values) const;
  absl::Status CheckKeys(int64_t rows) const;
  absl::Span<const uint64_t> Keys() const;
  internal_mlp::DropoutMask MaskOf(int layer, absl::Span<const uint64_t> keys, int64_t panel) const;
  internal_mlp::LayerNorm NormOf(const MlpLayer& layer) const;
  // Returns values[0] + values[per_action] + ... below `width`.
  static float SumOverActions(const float* values, int64_t width, int64_t per_action);
  void StoreOutput(int head, const Panels& panels, const Planes& values,
                   const MutableColumnsView& output) const;

  absl::Status CheckBackward(const ColumnsView& d_output) const;
  absl::Status CheckInputGradient(size_t size, int64_t first) const;
  // Computes all gradients, or without `weights` only the gradient of the input from element
  // `first` on, if `d_input` has room.
  absl::Status RunBackward(const ColumnsView& d_output, bool weights, int64_t first,
                           absl::Span<float> d_input);
  void LoadOutputGradient(int head, const ColumnsView& d_output, const Panels& panels);
  void ApplyActivationGradient(int layer, const Panels& panels);
  void ComputeNormGradients(int layer);
  void ApplyNormalizationGradient(int layer, const Panels& panels);
  void TransposeSource(const MlpLayer& layer, const Panels& panels);
  // A layer that reads the input gets only the gradients from input element `first_input` on.
  void ComputeSourceGradient(int layer, int64_t first_input, const Panels& panels);
  void StoreInputGradient(int64_t first, absl::Span<float> d_input, const Panels& panels) const;
  // Compute the gradients of the weights and biases of a layer, and part `thread` of `threads` of
  // the weight and bias gradients of all layers.
  void ComputeWeightGradients(int layer, int64_t first_output, int64_t end_output, int thread);
  void ComputePartOfWeightGradients(int thread, int threads);

  const MlpStructure structure_;
  const internal_mlp::PanelKernels& kernels_;
  const internal_mlp::NormalizationKernels& normalization_;
  // Whether layer i is the first of the backward pass that reads its source.
  std::vector<bool> first_reader_;
  // The memory of `parameters_` and `gradients_`, unless another network owns it.
  Tensor owned_parameters_;
  Tensor owned_gradients_;
  const absl::Span<float> parameters_;
  const absl::Span<float> gradients_;

  // Slot 0 is for the input, slot i + 1 for the output of layer i.
  std::vector<Planes> infer_values_;  // of each thread
  Planes values_;                     // values of the last Forward()
  // The same values for the weight gradients: [width / kPanelRows][rows][kPanelRows features].
  Planes transposed_;
  Planes d_values_;
  // Layer normalization of the last Forward(), slot i for layer i.
  Planes normalized_;
  Planes inverse_std_;
  absl::Span<const uint64_t> dropout_keys_;
  ThreadTeam* team_ = nullptr;
  Tensor last_columns_;        // working memory of weight gradients: [threads][out][kPanelRows]
  int64_t forward_rows_ = -1;  // rows of the last Forward(); -1: none since the last Backward()
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_MLP_MLP_H_
