// The losses of soft actor-critic beside that of its critics (critic_ensemble_loss.h), as functions of columns,
// for any network.
//
//   bootstrap    value_i = q_i - alpha log_prob_i               q_i: the minimum of the target critics
//   actor        1/B sum_i (alpha log_prob_i - value_i)         value_i: minimum or mean of the critics
//   temperature  -log_alpha 1/B sum_i (log_prob_i + target_entropy)
//
// log_prob_i belongs to an action that the actor draws now, and depends on its parameters. The gradient by
// the action goes through the critics and that by log_prob directly; the caller joins them in the actor's
// distribution (policy/continuous/squashed_normal.h). Sources: Haarnoja et al. 2018b ("Soft actor-critic
// algorithms and applications", eq. 3, 7 and 18, the latter with log_alpha in place of alpha, as its authors'
// code has it); Chen et al. 2021 (the mean over the critics).
//
// Shapes: a column has B >= 1 rows; K >= 1 critics.
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_SAC_LOSS_H_
#define DING_WORKER_POLICY_LOSS_SAC_LOSS_H_

#include "absl/types/span.h"
#include "ding_worker/policy/loss/critic_ensemble_loss.h"

namespace ding {

// value_i -= alpha log_prob_i.
void SubtractEntropyCost(absl::Span<const float> log_prob, double alpha, absl::Span<float> value);

// How the actor sums up its critics.
enum class CriticReduction {
  kMin,   // of all critics: SAC
  kMean,  // over all critics: REDQ
};

struct SacActorLossResult {
  double loss = 0;
  double mean_value = 0;  // mean over the rows of the minimum or mean of the critics
};

// Writes d loss / d q to `d_q` and d loss / d log_prob to `d_log_prob` [B]. Among equal minima the first
// critic has the gradient.
SacActorLossResult ComputeSacActorLoss(const CriticColumns& q, absl::Span<const float> log_prob,
                                       double alpha, CriticReduction reduction,
                                       const MutableCriticColumns& d_q,
                                       absl::Span<float> d_log_prob);

struct TemperatureLossResult {
  double loss = 0;
  double d_log_alpha = 0;
  double mean_entropy = 0;  // -1/B sum_i log_prob_i
};
TemperatureLossResult ComputeTemperatureLoss(absl::Span<const float> log_prob, double log_alpha,
                                             double target_entropy);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_SAC_LOSS_H_
