#include "ding_worker/policy/adam_loops.h"

#include <cmath>

#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/base/cpu.h"

namespace ding::internal_adam {
namespace {

DING_INLINE void StepLoop(const AdamFactors& factors, int64_t size,
                          const float* __restrict gradient, float* __restrict first,
                          float* __restrict second, float* __restrict parameter) {
  const AdamFactors f = factors;  // A local copy, which the loop cannot write to.
  for (int64_t i = 0; i < size; ++i) {
    const float g = gradient[i] + f.weight_decay * parameter[i];
    first[i] = f.beta1 * first[i] + f.one_minus_beta1 * g;
    second[i] = f.beta2 * second[i] + f.one_minus_beta2 * (g * g);
    const float denominator = std::sqrt(second[i]) * f.inverse_sqrt_correction2 + f.eps;
    parameter[i] -= f.step_size * (first[i] / denominator);
  }
}

// Adds partial sums in a fixed order, so that the loop vectorizes and the result is deterministic.
DING_INLINE double SumOfSquaresLoop(const float* values, int64_t size) {
  constexpr int64_t kLanes = 16;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (; i < size; ++i) sums[0] += double{values[i]} * values[i];
  double sum = 0;
  for (const double lane_sum : sums) sum += lane_sum;
  return sum;
}

struct Compiled {
  template <InstructionSet kSet>
  static constexpr AdamLoops kLoops = {Compile<kSet, StepLoop>(),
                                       Compile<kSet, SumOfSquaresLoop>()};
};

}  // namespace

const AdamLoops& AdamLoopsFor(InstructionSet set) { return LoopsFor<Compiled>(set); }

}  // namespace ding::internal_adam
