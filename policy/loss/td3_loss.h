// The losses of TD3 and DDPG beside that of their critics (critic_ensemble_loss.h), as functions of columns,
// for any network. Actions are in [-1, 1].
//
//   target action  a_i <- clip(a_i + clip(sigma noise_i, -c, c), -1, 1)
//   actor          -1/B sum_i q_i           q: the first critic, of the actions that the actor chooses now
//
// Sources: Fujimoto et al. 2018, eq. 14 and 15 (smoothing); Lillicrap et al. 2016, eq. 6 (the gradient).
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
double ComputeDeterministicActorLoss(absl::Span<const float> q, absl::Span<float> d_q);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_TD3_LOSS_H_
