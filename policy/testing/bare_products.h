// Lower bounds for the times of network passes ("floors"), for benchmarks: matrix products of the
// same shapes on OpenBLAS with one thread.
//
// Threads: thread-compatible. The constructors set OpenBLAS's number of threads.
#ifndef DING_WORKER_POLICY_TESTING_BARE_PRODUCTS_H_
#define DING_WORKER_POLICY_TESTING_BARE_PRODUCTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {

// The floor of an Mlp's passes: their products without biases, activations and checks.
class BareProducts {
 public:
  // The passes have batches of `rows` rows.
  BareProducts(const MlpStructure& structure, int64_t rows);

  void Forward();
  // Computes all weight gradients.
  void Backward();
  // Computes the gradient by the input alone.
  void BackwardToInput();

  // [num_parameters] each, with arbitrary values that stay normal numbers.
  absl::Span<float> parameters() { return absl::MakeSpan(parameters_); }
  absl::Span<const float> gradients() const { return gradients_; }

 private:
  void BackwardToSource(const MlpLayer& layer);

  const std::vector<MlpLayer> layers_;
  const int rows_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  // Every layer reads and writes these, so that values do not grow from product to product.
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<float> result_;
};

// The floor of an Rnn's passes: their products without biases, nonlinearities, transpositions and
// checks. There is one product with the recurrent weights for each step; each other product covers
// all rows.
class RnnBareProducts {
 public:
  // The passes have `sequences` sequences of `length` rows.
  RnnBareProducts(const RnnStructure& structure, int64_t sequences, int64_t length);

  void Forward();
  // Computes all weight gradients.
  void Backward();

 private:
  const RnnCellStructure cell_;
  const bool has_encoder_;
  const int sequences_;
  const int length_;
  std::optional<BareProducts> encoder_;
  BareProducts heads_;
  std::vector<float> weight_ih_;
  std::vector<float> weight_hh_;
  std::vector<float> inputs_;    // [T * B, in]
  std::vector<float> hidden_;    // [T * B, H]
  std::vector<float> gates_;     // [T * B, gate_rows]
  std::vector<float> results_;   // of the backward products, [T * B, in or H]
  std::vector<float> gradient_;  // [gate_rows, in or H]
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_BARE_PRODUCTS_H_
