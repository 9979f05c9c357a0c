// The losses of TD3, DDPG and TD3+BC beside that of their critics (critic_ensemble_loss.h), as functions of columns,
// for any network. Actions are in [-1, 1].
//
//   target action  a_i <- clip(a_i + clip(sigma noise_i, -c, c), -1, 1)
//   actor          -lambda 1/B sum_i q_i    q: the first critic, of the actions a that the actor chooses now
//   cloning        1/(B n) sum_i |a_i - data_i|^2                         of TD3+BC, added to the actor's loss
//   lambda         alpha / (1/B sum_i |q_i|) for TD3+BC, without a gradient; 1 for TD3 and DDPG
//
// Sources: Fujimoto et al. 2018, eq. 14 and 15 (smoothing); Lillicrap et al. 2016, eq. 6 (the gradient); Fujimoto and
// Gu 2021 ("A minimalist approach to offline reinforcement learning", eq. 3 and 5, and their code for the mean over
// the elements).
//
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_TD3_LOSS_H_
#define DING_WORKER_POLICY_LOSS_TD3_LOSS_H_

#include "absl/types/span.h"

namespace ding {

// Changes `action` as above. `noise` has as many standard normal numbers.
void SmoothTargetActions(absl::Span<const float> noise, double sigma, double clip,
                         absl::Span<float> action);

// Returns the actor's loss for `q` [B >= 1], and writes d loss / d q to `d_q` [B].
double ComputeDeterministicActorLoss(absl::Span<const float> q, absl::Span<float> d_q,
                                     double lambda = 1);

// The mean of |q_i|, of `q` [B >= 1].
double MeanAbsolute(absl::Span<const float> q);
// lambda for this mean of |q_i|. A mean below 1e-6 counts as that, so that lambda is finite.
double ValueWeight(double alpha, double mean_absolute_q);
// Returns the cloning loss for `action` and `data` [B, n], and adds its gradient by `action` to `d_action` [B, n].
double AddCloningLoss(absl::Span<const float> action, absl::Span<const float> data,
                      absl::Span<float> d_action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_TD3_LOSS_H_
