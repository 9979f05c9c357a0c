// Returns, advantages and targets over a run of consecutive rows, for all algorithms; V-trace.
//
// A run is T consecutive rows of one stream within one episode (a Segment): row t holds the reward
// r_t for the action on obs_t, and the value V_t = V(obs_t). The end of the run decides the
// bootstrap value V_T:
//
//   end          V_T
//   kCut         final_value = V(final_obs): the episode continues in a later segment
//   kTruncated   final_value: a time limit cut the episode off; further rewards would have come
//   kTerminated  0; final_value is ignored and may be NaN
//
// All sums stop at the end of the run. ComputeVTrace() takes several runs at once; its input marks
// their last steps.
//
// Shapes: all columns are [T] float32; gamma and lambda are in [0, 1]. Sums use float64.
// Errors: columns of different lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_DATA_RETURNS_H_
#define DING_WORKER_DATA_RETURNS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ding_worker/data/segment.h"

namespace ding {

// The input columns of a run.
struct RunColumns {
  absl::Span<const float> reward;  // [T]
  absl::Span<const float> value;   // [T] V(obs_t)
  float final_value = 0;           // V(final_obs)
  SegmentEnd end = SegmentEnd::kCut;
};

// The n-step return of row 0 without its bootstrap term, which needs a network:
//   target = reward + bootstrap_discount * V(the observation after row steps - 1)
struct NStepReturn {
  float reward = 0;              // r_0 + gamma r_1 + ... + gamma^(k-1) r_(k-1)
  float bootstrap_discount = 0;  // gamma^k, or 0 if the episode terminates within the window
  int64_t steps = 0;             // k = min(n, T): rows that the window covers
};

// Computes the n-step return (Sutton and Barto 2018, eq. 7.1). `reward` [T >= 1] begins with row 0
// and ends with the episode or with the available rows. Only the first n >= 1 rewards are used, and
// `end` only if the window reaches it. A shorter window (k < n) gives a k-step return.
NStepReturn ComputeNStepReturn(absl::Span<const float> reward, SegmentEnd end, int64_t n,
                               double gamma);

// Does the same for each of the R components of a reward: `rewards` is [T, R], and the sums go to
// `sums` [R]. Returns discount and steps, which all components share; its `reward` is 0.
NStepReturn ComputeNStepReturns(absl::Span<const float> rewards, SegmentEnd end, int64_t n,
                                double gamma, absl::Span<float> sums);

// G_t = sum over l >= 0 of gamma^l r_(t+l), plus gamma^(T-t) V_T (Sutton and Barto 2018, eq. 3.8).
// It does not use run.value.
void ComputeDiscountedReturns(const RunColumns& run, double gamma, absl::Span<float> returns);

// The lambda-return, the target of TD(lambda) (Sutton and Barto 2018, eq. 12.3):
//   G_t = r_t + gamma ((1 - lambda) V_(t+1) + lambda G_(t+1)),  G_T = V_T
void ComputeLambdaReturns(const RunColumns& run, double gamma, double lambda,
                          absl::Span<float> returns);

// Generalized advantage estimation (Schulman et al. 2016, eq. 16):
//   A_t = sum over l >= 0 of (gamma lambda)^l delta_(t+l),  delta_t = r_t + gamma V_(t+1) - V_t
// A_t + V_t is the lambda-return.
void ComputeGae(const RunColumns& run, double gamma, double lambda, absl::Span<float> advantage);

// The settings of ComputeVTrace().
struct VTraceOptions {
  // Clips the weight of a temporal difference, and of the policy gradient.
  double rho_bar = 1;
  // Clips the weight of later temporal differences; the paper has c_bar <= rho_bar.
  double c_bar = 1;
  double lambda = 1;  // remark 2 of the paper; in [0, 1]
};

// The input columns of ComputeVTrace(): steps of one stream in their order.
struct VTraceInput {
  absl::Span<const float> behaviour_log_prob;  // log mu(a_t | x_t)
  absl::Span<const float> log_prob;            // log pi(a_t | x_t)
  absl::Span<const float> reward;
  absl::Span<const float> discount;    // g_t
  absl::Span<const float> value;       // V_t
  absl::Span<const float> next_value;  // read at ends only
  absl::Span<const uint8_t> end;       // not 0: the step is an end; the last step is one anyway
};

// V-trace (Espeholt et al. 2018, "IMPALA: Scalable distributed deep-RL with importance weighted
// actor-learner architectures", eq. 1): targets of the critic and advantages of the actor for the
// current policy pi, from steps that another policy mu has taken.
//
// With the ratios w_t = pi(a_t | x_t) / mu(a_t | x_t), clipped to rho_t = min(rho_bar, w_t) and
// c_t = lambda min(c_bar, w_t), and the discount g_t of step t:
//
//   delta_t         = rho_t (r_t + g_t V(x'_t) - V_t), where x'_t is the observation after step t
//   target_t        = v_t = V_t + sum over l >= 0 of g_t c_t ... g_(t+l-1) c_(t+l-1) delta_(t+l)
//   pg_advantage_t  = rho_t (r_t + g_t v'_t - V_t)  (section 4.2)
//
// The sums stop at ends: the last step, and each step whose episode ends or whose next row is
// missing.
//
//   step           V(x'_t)        v'_t
//   no end         V_(t+1)        v_(t+1)
//   an end         next_value_t   next_value_t
//   discount is 0  0              0             the episode terminated; next_value_t may be NaN
//
// On policy, with rho_bar, c_bar and lambda of 1, target_t is the n-step return up to the next end.
void ComputeVTrace(const VTraceInput& input, const VTraceOptions& options, absl::Span<float> target,
                   absl::Span<float> pg_advantage);

}  // namespace ding

#endif  // DING_WORKER_DATA_RETURNS_H_
