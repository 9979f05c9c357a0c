// The losses of implicit Q-learning beside that of its critics (critic_ensemble_loss.h), as functions of columns, for
// any network. q_i is the minimum of the target critics for the action of the data, and u_i = q_i - v_i.
//
//   value    1/B sum_i |tau - 1(u_i < 0)| u_i^2                 an expectile of q over the actions of the data
//   weight   w_i = min(exp(beta u_i), 100)                      no gradient
//   actor    -1/B sum_i w_i sum_j log N(action_i,j; mean_i,j, exp(log_std_j))
//
//   d actor / d mean_i,j  = -w_i / B (action_i,j - mean_i,j) / std_j^2
//   d actor / d log_std_j = -1/B sum_i w_i (((action_i,j - mean_i,j) / std_j)^2 - 1)
//
// Source: Kostrikov et al. 2021 ("Offline reinforcement learning with implicit Q-learning", eq. 5 and 7); the bound of
// the weights and a deviation that does not depend on the observation are those of its authors' code.
//
// Shapes: q, v and weight [B]; action and mean [B, n] row-major; log_std [n]; B, n >= 1. Actions are in [-1, 1].
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_IQL_LOSS_H_
#define DING_WORKER_POLICY_LOSS_IQL_LOSS_H_

#include "absl/types/span.h"

namespace ding {

struct ExpectileLossResult {
  double loss = 0;
  double mean_value = 0;  // mean of v
};
// Writes d loss / d v to `d_v` [B]. `tau` is in (0, 1).
ExpectileLossResult ComputeExpectileLoss(absl::Span<const float> q, absl::Span<const float> v,
                                         double tau, absl::Span<float> d_v);

// Writes w_i to `weight` [B] and returns their mean.
double ComputeAdvantageWeights(absl::Span<const float> q, absl::Span<const float> v, double beta,
                               absl::Span<float> weight);

struct WeightedLikelihoodInput {
  absl::Span<const float> action;
  absl::Span<const float> mean;
  absl::Span<const float> log_std;
  absl::Span<const float> weight;
};
// Returns the actor's loss; writes its gradients to `d_mean` [B, n] and `d_log_std` [n].
double ComputeWeightedLikelihoodLoss(const WeightedLikelihoodInput& input, absl::Span<float> d_mean,
                                     absl::Span<float> d_log_std);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_IQL_LOSS_H_
