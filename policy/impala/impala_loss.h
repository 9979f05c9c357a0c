// The loss of IMPALA (Espeholt et al. 2018, section 4.2) on B sequences of T rows, as a function of
// log-probabilities, entropies and values, independent of networks and distributions:
//
//   loss = policy_loss + value_coef * value_loss - entropy_coef * mean entropy
//
//   policy_loss  -1/N sum_i pg_advantage_i log_prob_i
//   value_loss   1/(2N) sum_i (value_i - target_i)^2
//
// N rows are no padding; all sums and means are over these. Targets and advantages are those of V-trace
// (data/vtrace.h), from the current values and log-probabilities, and no gradient flows into them.
// Without V-trace all ratios count as 1: targets are n-step returns, as if the current policy had acted.
//
// approx_kl is Schulman's estimate "k3" (2020, "Approximating KL divergence"): mean of r - 1 - log r.
//
// Shapes: all columns are [B * T], with row t of sequence b at b * T + t. Sums use float64.
// Errors: columns of other lengths, and no row that counts, are mistakes of the caller and end the
//         program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_IMPALA_IMPALA_LOSS_H_
#define DING_WORKER_POLICY_IMPALA_IMPALA_LOSS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ding_worker/data/vtrace.h"

namespace ding {

struct ImpalaLossOptions {
  VTraceOptions vtrace;
  bool use_vtrace = true;
  double value_coef = 0.5;
  double entropy_coef = 0;
};

struct ImpalaLossInput {
  int64_t length = 1;  // T
  // `log_prob` and `value` are of the current policy and critic; the others as in data/vtrace.h.
  VTraceInput rows;
  absl::Span<const float> entropy;  // of the current policy
  absl::Span<const uint8_t> mask;   // 0: padding, at the end of a sequence; empty: no row is
};

// The output columns. Rows of padding have target and advantage of an undefined value, and gradient 0.
struct ImpalaLossOutput {
  absl::Span<float> target;
  absl::Span<float> pg_advantage;
  absl::Span<float> d_log_prob;
  absl::Span<float> d_entropy;
  absl::Span<float> d_value;
};

struct ImpalaLossResult {
  double loss = 0;
  double policy_loss = 0;
  double value_loss = 0;
  double entropy = 0;        // mean
  double approx_kl = 0;      // between the policy that acted and the current one
  double mean_ratio = 0;     // of pi to mu, not clipped
  double clip_fraction = 0;  // share of the rows whose ratio is above rho_bar
  int64_t rows = 0;          // N
};

ImpalaLossResult ComputeImpalaLoss(const ImpalaLossInput& input, const ImpalaLossOptions& options,
                                   const ImpalaLossOutput& output);

}  // namespace ding

#endif  // DING_WORKER_POLICY_IMPALA_IMPALA_LOSS_H_
