// The losses of discrete soft actor-critic beside those of its critics (critic_ensemble_loss.h) and its temperature
// (sac_loss.h), as functions of columns, for any network. With pi = softmax(logit) over the legal actions:
//
//   entropy_i  -sum_a pi_i,a log pi_i,a
//   bootstrap  value_i = sum_a pi_i,a q_i,a + alpha entropy_i             q: the minimum of the target critics
//   actor      -1/B sum_i value_i                                         q: the minimum of the critics
//   d actor / d logit_i,j = 1/B pi_i,j (alpha (log pi_i,j + entropy_i) - (q_i,j - sum_a pi_i,a q_i,a))
//
// Source: Christodoulou 2019 ("Soft actor-critic for discrete action settings", eq. 10 to 12): expectations over the
// actions take the place of samples.
//
// Shapes: logit, q and mask [B, A] row-major; B, A >= 1.
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_DISCRETE_SAC_LOSS_H_
#define DING_WORKER_POLICY_LOSS_DISCRETE_SAC_LOSS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ding {

struct SoftValueInput {
  absl::Span<const float> logit;
  absl::Span<const float> q;
  int64_t num_actions = 0;              // A
  absl::Span<const uint8_t> mask = {};  // 0: illegal; empty: all actions are legal
};

// Writes value_i to `value` [B]; 0 for a row without a legal action.
void ComputeSoftValues(const SoftValueInput& input, double alpha, absl::Span<float> value);

// Returns the actor's loss; writes -entropy_i to `mean_log_prob` [B] and d loss / d logit to `d_logit` [B, A].
// Illegal actions have gradient 0.
double ComputeDiscreteSacActorLoss(const SoftValueInput& input, double alpha,
                                   absl::Span<float> mean_log_prob, absl::Span<float> d_logit);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_DISCRETE_SAC_LOSS_H_
