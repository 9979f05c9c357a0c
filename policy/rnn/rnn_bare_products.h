// The floor of an Rnn's passes, for benchmarks: matrix products of the same shapes on OpenBLAS with one
// thread, without biases, nonlinearities, transpositions and checks. The products of a step with the
// recurrent weights are one for each step, all others one for all rows.
//
// Threads: thread-compatible. The constructor sets OpenBLAS's number of threads.
#ifndef DING_WORKER_POLICY_RNN_RNN_BARE_PRODUCTS_H_
#define DING_WORKER_POLICY_RNN_RNN_BARE_PRODUCTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ding_worker/policy/mlp/bare_products.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {

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

#endif  // DING_WORKER_POLICY_RNN_RNN_BARE_PRODUCTS_H_
