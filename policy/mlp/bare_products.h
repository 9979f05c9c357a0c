// The floor of an Mlp's passes, for benchmarks: matrix products of the same shapes on OpenBLAS with one
// thread, without biases, activations and checks.
//
// Threads: thread-compatible. The constructor sets OpenBLAS's number of threads.
#ifndef DING_WORKER_POLICY_MLP_BARE_PRODUCTS_H_
#define DING_WORKER_POLICY_MLP_BARE_PRODUCTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/policy/mlp/mlp_structure.h"

namespace ding {

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

}  // namespace ding

#endif  // DING_WORKER_POLICY_MLP_BARE_PRODUCTS_H_
