// The losses of on-policy algorithms (PPO, A2C) and of IMPALA, as functions of log-probabilities,
// entropies and values, independent of networks and distributions.
//
// approx_kl is Schulman's estimate "k3" (2020, "Approximating KL divergence") in all of them: mean
// of r - 1 - log r, which is never negative.
//
// Errors: columns of wrong lengths, and columns in which every row is padding, are mistakes of the
//         caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_ACTOR_CRITIC_LOSS_H_
#define DING_WORKER_POLICY_LOSS_ACTOR_CRITIC_LOSS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/policy/loss/loss_function.h"

namespace ding {

// The losses of on-policy actor-critic algorithms:
//
//   loss = policy_loss + value_coef * value_loss - entropy_coef * mean entropy
//
//   value_loss  1/(2B) sum_i (value_i - return_i)^2; with value_clip > 0 the larger of this square
//               and (old_value_i + clip(value_i - old_value_i, +-value_clip) - return_i)^2
//   PPO         policy_loss = -1/B sum_i min(r_i A_i, clip(r_i, 1 - e, 1 + e) A_i),
//               r_i = exp(log_prob_i - old_log_prob_i)
//   A2C         policy_loss = -1/B sum_i log_prob_i A_i
//
// Rows of padding, whose `mask` is 0, are not part of these sums and have gradient 0; B counts the
// other rows. No gradient flows into advantages and returns. Sources: Schulman et al. 2017
// ("Proximal policy optimization algorithms", eq. 7 and 9; the clipped value loss is from the
// authors' code); Mnih et al. 2016 ("Asynchronous methods for deep reinforcement learning", section
// 4).
//
// Shapes: all columns are [B], B >= 1, with at least one row that is not padding. Sums use float64.

struct ActorCriticLossOptions {
  double value_coef = 0.5;
  double entropy_coef = 0;
  double value_clip = 0;    // 0: the value loss is not clipped
  double ratio_clip = 0.2;  // e of PPO, above 0
};

struct ActorCriticLossInput {
  absl::Span<const float> log_prob;      // of the actions taken, under the current policy
  absl::Span<const float> entropy;       // of the current policy
  absl::Span<const float> value;         // of the current critic
  absl::Span<const float> old_log_prob;  // under the policy that acted
  absl::Span<const float> old_value;
  absl::Span<const float> advantage;
  absl::Span<const float> returns;
  absl::Span<const uint8_t> mask = {};  // 0: padding; empty: there is none
};

// The output columns for the gradients of the loss.
struct ActorCriticLossGradient {
  absl::Span<float> d_log_prob;
  absl::Span<float> d_entropy;
  absl::Span<float> d_value;
};

struct ActorCriticLossResult {
  double loss = 0;
  double policy_loss = 0;
  double value_loss = 0;
  double entropy = 0;        // mean
  double approx_kl = 0;      // between the policy that acted and the current one
  double clip_fraction = 0;  // share of rows whose ratio is outside 1 +- e; 0 for A2C
};

// The term of a row in the sum B * policy_loss, and its derivative by log_prob_i.
struct PolicyTerm {
  double value = 0;
  double slope = 0;
};

// Computes the loss of an algorithm whose policy_loss is 1/B sum_i term(i, r_i).value, and its
// gradients. Call it with the term of your own algorithm. If the term is a function of the ratio
// r_i = exp(log_prob_i - old_log_prob_i), its slope is r_i d value / d r_i.
ActorCriticLossResult ComputeActorCriticLoss(
    const ActorCriticLossInput& input, const ActorCriticLossOptions& options,
    const ActorCriticLossGradient& gradient,
    absl::FunctionRef<PolicyTerm(size_t row, double ratio)> term);

// The term of PPO: -min(r A, clip(r, 1 - e, 1 + e) A).
PolicyTerm PpoTerm(double ratio, double advantage, double ratio_clip);

ActorCriticLossResult ComputePpoLoss(const ActorCriticLossInput& input,
                                     const ActorCriticLossOptions& options,
                                     const ActorCriticLossGradient& gradient);

ActorCriticLossResult ComputeA2cLoss(const ActorCriticLossInput& input,
                                     const ActorCriticLossOptions& options,
                                     const ActorCriticLossGradient& gradient);

// Converts the arguments of the functions above to the input of a loss of your own (LossFunction).
// The arguments must outlive the result.
LossInput AsLossInput(const ActorCriticLossInput& input, const ActorCriticLossOptions& options,
                      const ActorCriticLossGradient& gradient);

// Normalizes `advantage` to mean 0 and standard deviation 1: (A - mean) / (std + 1e-8). Ignores
// rows whose `mask` is 0; an empty mask has no such rows.
void NormalizeAdvantages(absl::Span<float> advantage, absl::Span<const uint8_t> mask = {});

// The loss of IMPALA (Espeholt et al. 2018, section 4.2) on B sequences of T rows:
//
//   loss = policy_loss + value_coef * value_loss - entropy_coef * mean entropy
//
//   policy_loss  -1/N sum_i pg_advantage_i log_prob_i
//   value_loss   1/(2N) sum_i (value_i - target_i)^2
//
// N is the number of rows that are not padding; all sums and means are over these rows. V-trace
// (data/returns.h) computes targets and advantages from the current values and log-probabilities,
// and no gradient flows into them. Without V-trace all ratios count as 1: targets are n-step
// returns, as if the current policy had acted.
//
// Shapes: all columns are [B * T], with row t of sequence b at b * T + t. Sums use float64.

struct ImpalaLossOptions {
  VTraceOptions vtrace;
  bool use_vtrace = true;
  double value_coef = 0.5;
  double entropy_coef = 0;
};

struct ImpalaLossInput {
  int64_t length = 1;  // T
  // `log_prob` and `value` are of the current policy and critic; the other columns are as in
  // data/returns.h.
  VTraceInput rows;
  absl::Span<const float> entropy;  // of the current policy
  absl::Span<const uint8_t> mask;   // 0: padding, at the end of a sequence; empty: no padding
};

// The output columns. In rows of padding, target and advantage are undefined, and the gradients are
// 0.
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
  double mean_ratio = 0;     // mean of pi / mu, not clipped
  double clip_fraction = 0;  // share of the rows whose ratio is above rho_bar
  int64_t rows = 0;          // N
};

ImpalaLossResult ComputeImpalaLoss(const ImpalaLossInput& input, const ImpalaLossOptions& options,
                                   const ImpalaLossOutput& output);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_ACTOR_CRITIC_LOSS_H_
