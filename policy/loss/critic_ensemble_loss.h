// The temporal difference loss of several critics that learn the same target, and its bootstrap value, as
// functions of columns, for any network.
//
//   target_i = reward_i + discount_i * next_value_i            (data/sample_columns.h)
//   loss     = sum over critics k of 1/B sum_i weight_i (q_k,i - target_i)^2
//   value_i  = min over a subset of the critics of q_k,i
//
// No gradient flows into the target. Sources: Fujimoto et al. 2018 ("Addressing function approximation error
// in actor-critic methods", eq. 10: the minimum of two critics); Chen et al. 2021 ("Randomized ensembled
// double Q-learning", algorithm 1: the minimum of a random subset). The square has no 1/2, as in td_loss.h.
//
// Shapes: a column has B >= 1 rows, and there are K >= 1 critics, each with a column of its own.
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_CRITIC_ENSEMBLE_LOSS_H_
#define DING_WORKER_POLICY_LOSS_CRITIC_ENSEMBLE_LOSS_H_

#include <vector>

#include "absl/types/span.h"

namespace ding {

// The columns of K critics.
using CriticColumns = std::vector<absl::Span<const float>>;
using MutableCriticColumns = std::vector<absl::Span<float>>;

struct CriticLossInput {
  const CriticColumns& q;               // of the actions taken
  absl::Span<const float> reward;       // summed over the n-step window
  absl::Span<const float> discount;     // 0: terminated within the window
  absl::Span<const float> next_value;   // the bootstrap value
  absl::Span<const float> weight = {};  // importance weights, or empty: all 1
};

struct CriticLossResult {
  double loss = 0;
  double mean_q = 0;  // over rows and critics
  double mean_target = 0;
};

// Writes the mean over the critics of |q_k,i - target_i| to `td_error` [B], and d loss / d q to `d_q`.
CriticLossResult ComputeCriticLoss(const CriticLossInput& input, absl::Span<float> td_error,
                                   const MutableCriticColumns& d_q);

// value_i = min over k in `members` of q_k,i. `members` are indices of critics, at least one.
void MinOverCritics(const CriticColumns& q, absl::Span<const int> members, absl::Span<float> value);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_CRITIC_ENSEMBLE_LOSS_H_
