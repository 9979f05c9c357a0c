// The inner loops of the losses of distributions (policy/loss/distributional_loss.h), compiled for
// several instruction sets.
//
// Threads: thread-safe; the functions use their arguments only.
#ifndef DING_WORKER_POLICY_LOSS_DISTRIBUTION_LOOPS_H_
#define DING_WORKER_POLICY_LOSS_DISTRIBUTION_LOOPS_H_

#include <cstdint>

#include "ding_worker/base/cpu.h"

namespace ding::internal_loss {

// One row of a quantile Huber loss: `size` quantiles with their fractions, and `target_size`
// samples.
struct QuantileRow {
  const float* quantile = nullptr;
  const float* fraction = nullptr;
  int64_t size = 0;
  const float* target = nullptr;
  int64_t target_size = 0;
  float kappa = 1;
};

struct DistributionLoops {
  // Writes softmax(logit) to `probability` and returns log(sum(exp(logit))); size >= 1.
  double (*softmax)(const float* logit, int64_t size, float* probability);
  // Returns the mean of softmax(logit) over the atoms low + i * step; size >= 1.
  float (*softmax_mean)(const float* logit, int64_t size, float low, float step);
  double (*sum)(const float* values, int64_t size);
  // Returns the sum over quantiles i and targets j of |fraction_i - 1(u < 0)| huber(u) / kappa,
  // where u = target_j - quantile_i, and writes the derivative by the quantiles to `d_quantile`
  // [size].
  double (*quantile_huber)(const QuantileRow& row, float* d_quantile);
};

// This processor must support `set`.
const DistributionLoops& DistributionLoopsFor(InstructionSet set);

}  // namespace ding::internal_loss

#endif  // DING_WORKER_POLICY_LOSS_DISTRIBUTION_LOOPS_H_
