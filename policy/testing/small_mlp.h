// A network that is small and smooth, for tests that compare gradients with finite differences.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TESTING_SMALL_MLP_H_
#define DING_WORKER_POLICY_TESTING_SMALL_MLP_H_

#include "ding_worker/policy/mlp/mlp.h"

namespace ding {

// Returns the options of an Mlp with hidden layers of 12 and 8 units, and tanh, which is smooth.
inline MlpOptions SmallMlpOptions() {
  MlpOptions options;
  options.encoder_hidden_size = {12, 8};
  options.head_layer_num = 0;
  options.activation = MlpOptions::Activation::kTanh;
  return options;
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_SMALL_MLP_H_
