// The losses of Q-learning, as functions of columns, for any network: the n-step temporal
// difference loss with its bootstrap values, and the conservative penalty of discrete CQL.
//
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_TD_LOSS_H_
#define DING_WORKER_POLICY_LOSS_TD_LOSS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ding {

// The n-step temporal difference loss of Q-learning and its bootstrap values.
//
//   target_i = reward_i + discount_i * next_value_i           (data/sample_columns.h)
//   td_i     = q[i, action_i] - target_i
//   loss     = 1/B sum_i weight_i f(td_i)
//
//   f(x) = x^2                                                                   kMse
//   f(x) = x^2 / 2 if |x| <= delta, else delta (|x| - delta / 2)                 kHuber
//
// No gradient flows into the target. kMse has no 1/2, as in DI-engine, so that learning rates carry
// over. Sources: Mnih et al. 2015 ("Human-level control", the loss and its clipped error, which is
// kHuber with delta 1); Sutton and Barto 2018, eq. 7.1 (n steps); Schaul et al. 2016 ("Prioritized
// experience replay": weight_i, and |td_i| as priority); van Hasselt et al. 2016, eq. 4 (double
// Q-learning). Dueling heads (Wang et al. 2016) belong to the network.
//
// Shapes: q [B, A] row-major, everything else [B]; B >= 1, A >= 1; actions in [0, A).

enum class TdLossKind { kMse, kHuber };

struct TdLossOptions {
  TdLossKind kind = TdLossKind::kMse;
  float huber_delta = 1;  // above 0
};

// f(td) and its derivative.
struct TdPenalty {
  double value;
  double slope;
};
TdPenalty PenaltyOf(double td, const TdLossOptions& options);

struct TdLossInput {
  absl::Span<const float> q;            // [B, A] of the online network
  absl::Span<const int64_t> action;     // [B] the actions taken
  absl::Span<const float> reward;       // [B] summed over the n-step window
  absl::Span<const float> discount;     // [B] 0: terminated within the window
  absl::Span<const float> next_value;   // [B]
  absl::Span<const float> weight = {};  // [B], or empty: all 1
};

struct TdLossResult {
  double loss = 0;
  double mean_q = 0;           // mean over the actions taken
  double mean_next_value = 0;  // mean bootstrap value, before the discount
};

// Writes td_i to `td_error` [B] and d loss / d q to `d_q` [B, A].
TdLossResult ComputeTdLoss(const TdLossInput& input, const TdLossOptions& options,
                           absl::Span<float> td_error, absl::Span<float> d_q);

// In the functions below, `mask` has one element per value, 0 if the action is illegal
// (policy/action_space.h). If it is empty, all actions are legal.

// Q-learning: value_i = max_a q[i, a] over the legal actions; 0 if there is none.
void SelectMaxValue(absl::Span<const float> q, int64_t num_actions, absl::Span<float> value,
                    absl::Span<const uint8_t> mask = {});

// Double Q-learning: value_i = target_q[i, argmax_a online_q[i, a]] over the legal actions; 0 if
// there is none. An action may have W values: `target_q` is then [B, A, W] and `value` [B, W].
void SelectDoubleQValue(absl::Span<const float> online_q, absl::Span<const float> target_q,
                        int64_t num_actions, absl::Span<float> value,
                        absl::Span<const uint8_t> mask = {});

// Returns the index of the largest legal value of `values` [A >= 1], the lowest index among equals;
// -1 if no value is legal. `mask` has one element per value, 0 if it is illegal
// (policy/action_space.h); empty: all are legal.
int64_t Argmax(absl::Span<const float> values, absl::Span<const uint8_t> mask = {});

// The conservative penalty of discrete CQL (Kumar et al. 2020, "Conservative Q-Learning for Offline
// Reinforcement Learning", eq. 4: CQL(H)).
//
//   gap_i   = log sum_a exp(q[i, a]) - q[i, action_i], the sum over the legal actions
//   penalty = alpha 1/B sum_i weight_i gap_i
//
// The penalty is added to the loss of Q-learning. It lowers the values of actions that are not in
// the data: offline training has no rewards that would correct these values.
//
// Shapes: q [B, A] row-major, action and weight [B], mask [B, A]; B, A >= 1; actions in [0, A) and
//         legal.

struct CqlPenaltyInput {
  absl::Span<const float> q;            // [B, A] of the online network
  absl::Span<const int64_t> action;     // [B] the actions of the data
  absl::Span<const float> weight = {};  // [B], or empty: all 1
  absl::Span<const uint8_t> mask = {};  // [B, A], 0: illegal; empty: all actions are legal
};

// Returns the penalty and adds d penalty / d q to `d_q` [B, A].
double AddCqlPenalty(const CqlPenaltyInput& input, double alpha, absl::Span<float> d_q);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_TD_LOSS_H_
