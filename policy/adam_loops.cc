#include "ding_worker/policy/adam_loops.h"

#include <cmath>

#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"

namespace ding::internal_adam {
namespace {

// The body of every variant, inlined into functions that differ in their instruction set only.
__attribute__((always_inline)) inline void StepLoop(const AdamFactors& factors, int64_t size,
                                                    const float* __restrict gradient,
                                                    float* __restrict first,
                                                    float* __restrict second,
                                                    float* __restrict parameter) {
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
__attribute__((always_inline)) inline double SumOfSquaresLoop(const float* values, int64_t size) {
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

// The loops above for one instruction set.
#define DING_DEFINE_LOOPS(name, target)                                                   \
  target void Step##name(const AdamFactors& factors, int64_t size, const float* gradient, \
                         float* first, float* second, float* parameter) {                 \
    StepLoop(factors, size, gradient, first, second, parameter);                          \
  }                                                                                       \
  target double SumOfSquares##name(const float* values, int64_t size) {                   \
    return SumOfSquaresLoop(values, size);                                                \
  }                                                                                       \
  constexpr AdamLoops k##name = {Step##name, SumOfSquares##name};

DING_DEFINE_LOOPS(Baseline, )
#if defined(__x86_64__)
DING_DEFINE_LOOPS(Avx2, DING_TARGET_AVX2)
DING_DEFINE_LOOPS(Avx512, DING_TARGET_AVX512)
#endif

}  // namespace

const AdamLoops& AdamLoopsFor(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return kAvx512;
  if (set == InstructionSet::kAvx2) return kAvx2;
#endif
  DING_CHECK(set == InstructionSet::kBaseline) << InstructionSetName(set);
  return kBaseline;
}

}  // namespace ding::internal_adam
