// R2D2: recurrent DQN (Kapturowski et al. 2019, "Recurrent experience replay in distributed
// reinforcement learning", ICLR) on a recurrent network (policy/network.h), with the parts of
// policy/dqn.
//
//   collect, eval, command  as in policy/q_learning/q_policy.h. The collect mode also writes
//                           "rnn_state" [S], the state before the row, which must be stored with
//                           the row
//   learn                   takes one Adam step on a batch of B sequences of T >= 2 rows; settings
//                           and saved state as in policy/q_learning/q_policy.h. Columns, beside the
//                           columns of SampledTransitionReader:
//                             rnn_state  the state in row b * T is the state before sequence b
//                             burn_in    optional; 1 in the first rows of each sequence, the same
//                                        number of rows in all
//                                        all
//                             mask, is_first  optional
//                             weight     optional; the weight in row b * T belongs to sequence b
//                             n_step     optional; 1 everywhere: R2D2 sums n steps itself
//
//     stored state ──► burn-in rows ──► row ──► row ──► ... ──► last row of an episode or of the sequence
//                      (no gradient)     │q      │q               │q     │ state after it
//                                                                        └──► next_obs ──► value
//
// Online and target network are unrolled over the rows of a sequence from the stored state of its
// first row. If the next row of the sequence continues the episode, its value is the value of
// next_obs. Otherwise both networks take one further step, on next_obs. So the targets are exact
// also for truncated episodes and at the ends of sequences. n-step returns, value rescaling, loss
// and priorities: policy/loss/r2d2_loss.h.
//
// Action masks, reported scalars: as DQN. q_value and target_q_value are in the scale of the
// network and means over the learning rows. LearnStep::priority has one entry for each sequence.
//
// Saved: as DQN, and in the collect state "recurrent/...", the states of the envs.
//
// Ownership: the policy owns network, target network and optimizer; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    as DQN; kInvalidArgument for a batch in which every row is padding or burn-in.
#ifndef DING_WORKER_POLICY_R2D2_R2D2_H_
#define DING_WORKER_POLICY_R2D2_R2D2_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/loss/r2d2_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/q_learning/q_policy.h"

namespace ding {

struct R2d2Options {
  DqnOptions dqn;
  int64_t nstep = 5;  // rewards summed before bootstrapping, at least 1
  ValueScale scale;
  double priority_eta = 0.9;  // in [0, 1]
};

class R2d2Policy : public QPolicy {
 public:
  // `network` is a RecurrentNetwork with one output field, "q" [number of actions], and reads
  // WithoutActionMask(observation). If `observation` is null, it is the input spec of the network.
  //   kInvalidArgument  a space, the network or an option does not fit
  static absl::StatusOr<std::unique_ptr<R2d2Policy>> Create(std::unique_ptr<Network> network,
                                                            SpecPtr action,
                                                            const R2d2Options& options,
                                                            SpecPtr observation = nullptr);

 private:
  using QPolicy::QPolicy;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_R2D2_R2D2_H_
