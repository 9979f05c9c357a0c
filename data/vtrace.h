// V-trace (Espeholt et al. 2018, "IMPALA: Scalable distributed deep-RL with importance weighted
// actor-learner architectures", eq. 1): targets of the critic and advantages of the actor for the current
// policy pi, from steps that another policy mu has taken.
//
// With the ratios w_t = pi(a_t | x_t) / mu(a_t | x_t), clipped to rho_t = min(rho_bar, w_t) and
// c_t = lambda min(c_bar, w_t), and the discount g_t of step t:
//
//   delta_t         = rho_t (r_t + g_t V(x'_t) - V_t), where x'_t is the observation after step t
//   target_t        = v_t = V_t + sum over l >= 0 of g_t c_t ... g_(t+l-1) c_(t+l-1) delta_(t+l)
//   pg_advantage_t  = rho_t (r_t + g_t v'_t - V_t)  (section 4.2)
//
// The sums stop at ends: the last step, and each step whose episode ends or whose next row is missing.
//
//   step           V(x'_t)        v'_t
//   no end         V_(t+1)        v_(t+1)
//   an end         next_value_t   next_value_t
//   discount is 0  0              0             the episode terminated; next_value_t is ignored, may be NaN
//
// On policy, with rho_bar, c_bar and lambda of 1, target_t is the n-step return up to the next end.
//
// Shapes: all columns are [T] of one stream in the order of its steps. Sums use float64.
// Errors: columns of different lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_DATA_VTRACE_H_
#define DING_WORKER_DATA_VTRACE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ding {

struct VTraceOptions {
  double rho_bar = 1;  // clips the weight of a temporal difference, and of the policy gradient
  double c_bar =
      1;  // clips the weight of later temporal differences; the paper has c_bar <= rho_bar
  double lambda = 1;  // remark 2; in [0, 1]
};

struct VTraceInput {
  absl::Span<const float> behaviour_log_prob;  // log mu(a_t | x_t)
  absl::Span<const float> log_prob;            // log pi(a_t | x_t)
  absl::Span<const float> reward;
  absl::Span<const float> discount;    // g_t
  absl::Span<const float> value;       // V_t
  absl::Span<const float> next_value;  // read at ends only
  absl::Span<const uint8_t> end;       // not 0: the step is an end; the last step is one anyway
};

void ComputeVTrace(const VTraceInput& input, const VTraceOptions& options, absl::Span<float> target,
                   absl::Span<float> pg_advantage);

}  // namespace ding

#endif  // DING_WORKER_DATA_VTRACE_H_
