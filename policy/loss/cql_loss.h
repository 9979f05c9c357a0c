// The conservative penalty of discrete CQL (Kumar et al. 2020, "Conservative Q-Learning for Offline Reinforcement
// Learning", eq. 4: CQL(H)), as a function of columns, for any network.
//
//   gap_i   = log sum_a exp(q[i, a]) - q[i, action_i], the sum over the legal actions
//   penalty = alpha 1/B sum_i weight_i gap_i
//
// It is added to the loss of Q-learning. It lowers the values of actions that the data do not have, which no reward
// corrects in offline training.
//
// Shapes: q [B, A] row-major, action and weight [B], mask [B, A]; B, A >= 1; actions in [0, A) and legal.
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_CQL_LOSS_H_
#define DING_WORKER_POLICY_LOSS_CQL_LOSS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ding {

struct CqlPenaltyInput {
  absl::Span<const float> q;            // [B, A] of the online network
  absl::Span<const int64_t> action;     // [B] the actions of the data
  absl::Span<const float> weight = {};  // [B], or empty: all 1
  absl::Span<const uint8_t> mask = {};  // [B, A], 0: illegal; empty: all actions are legal
};

// Returns the penalty and adds d penalty / d q to `d_q` [B, A].
double AddCqlPenalty(const CqlPenaltyInput& input, double alpha, absl::Span<float> d_q);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_CQL_LOSS_H_
