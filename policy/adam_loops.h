// The loops of Adam, compiled for several instruction sets.
//
// Threads: thread-safe; the functions use their arguments only.
#ifndef DING_WORKER_POLICY_ADAM_LOOPS_H_
#define DING_WORKER_POLICY_ADAM_LOOPS_H_

#include <cstdint>

#include "ding_worker/base/cpu.h"

namespace ding::internal_adam {

struct AdamFactors {
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float weight_decay;
  float step_size;                 // lr / (1 - beta1^t)
  float inverse_sqrt_correction2;  // 1 / sqrt(1 - beta2^t)
  float eps;
};

struct AdamLoops {
  // Takes one step on `size` parameters: updates both moments and the parameters. The arrays must
  // not overlap.
  void (*step)(const AdamFactors& factors, int64_t size, const float* gradient, float* first_moment,
               float* second_moment, float* parameter);
  double (*sum_of_squares)(const float* values, int64_t size);
};

// This processor must support `set`.
const AdamLoops& AdamLoopsFor(InstructionSet set);

}  // namespace ding::internal_adam

#endif  // DING_WORKER_POLICY_ADAM_LOOPS_H_
