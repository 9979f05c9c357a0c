// The losses of off-policy algorithms with an actor, as functions of columns, for any network: the
// loss of their critics, and the losses of the actors of SAC, discrete SAC, TD3 and IQL.
//
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_OFF_POLICY_LOSS_H_
#define DING_WORKER_POLICY_LOSS_OFF_POLICY_LOSS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace ding {

// The temporal difference loss of several critics that learn the same target, and its bootstrap
// value.
//
//   target_i = reward_i + discount_i * next_value_i            (data/sample_columns.h)
//   loss     = sum over critics k of 1/B sum_i weight_i (q_k,i - target_i)^2
//   value_i  = min over a subset of the critics of q_k,i
//
// No gradient flows into the target. Sources: Fujimoto et al. 2018 ("Addressing function
// approximation error in actor-critic methods", eq. 10: the minimum of two critics); Chen et al.
// 2021 ("Randomized ensembled double Q-learning", algorithm 1: the minimum of a random subset). The
// square has no 1/2, as in policy/loss/td_loss.h.
//
// Shapes: a column has B >= 1 rows, and there are K >= 1 critics, each with a column of its own.

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

// Writes the mean over the critics of |q_k,i - target_i| to `td_error` [B], and d loss / d q to
// `d_q`.
CriticLossResult ComputeCriticLoss(const CriticLossInput& input, absl::Span<float> td_error,
                                   const MutableCriticColumns& d_q);

// value_i = min over k in `members` of q_k,i. `members` are indices of critics, at least one.
void MinOverCritics(const CriticColumns& q, absl::Span<const int> members, absl::Span<float> value);

// The losses of soft actor-critic beside the loss of its critics:
//
//   bootstrap    value_i = q_i - alpha log_prob_i               q_i: the minimum of the target critics
//   actor        1/B sum_i (alpha log_prob_i - value_i)         value_i: minimum or mean of the critics
//   temperature  -log_alpha 1/B sum_i (log_prob_i + target_entropy)
//
// log_prob_i belongs to an action that the actor draws now, so it depends on the parameters of the
// actor. The gradient by the action goes back through the critics; the gradient by log_prob does
// not. The caller adds both in the actor's distribution (policy/continuous/continuous_actor.h).
// Sources: Haarnoja et al. 2018b ("Soft actor-critic algorithms and applications", eq. 3, 7 and 18;
// eq. 18 has log_alpha in place of alpha, as in its authors' code); Chen et al. 2021 (the mean over
// the critics).
//
// Shapes: a column has B >= 1 rows; K >= 1 critics.

// value_i -= alpha log_prob_i.
void SubtractEntropyCost(absl::Span<const float> log_prob, double alpha, absl::Span<float> value);

// How the actor combines its critics.
enum class CriticReduction {
  kMin,   // of all critics: SAC
  kMean,  // over all critics: REDQ
};

struct SacActorLossResult {
  double loss = 0;
  double mean_value = 0;  // mean over the rows of the minimum or mean of the critics
};

// Writes d loss / d q to `d_q` and d loss / d log_prob to `d_log_prob` [B]. If several critics have
// the minimum, the first one gets the gradient.
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

// The losses of discrete soft actor-critic beside the losses of its critics and its temperature.
// With pi = softmax(logit) over the legal actions:
//
//   entropy_i  -sum_a pi_i,a log pi_i,a
//   bootstrap  value_i = sum_a pi_i,a q_i,a + alpha entropy_i             q: the minimum of the target critics
//   actor      -1/B sum_i value_i                                         q: the minimum of the critics
//   d actor / d logit_i,j = 1/B pi_i,j (alpha (log pi_i,j + entropy_i) - (q_i,j - sum_a pi_i,a q_i,a))
//
// Source: Christodoulou 2019 ("Soft actor-critic for discrete action settings", eq. 10 to 12):
// expectations over the actions take the place of samples.
//
// Shapes: logit, q and mask [B, A] row-major; B, A >= 1.

struct SoftValueInput {
  absl::Span<const float> logit;
  absl::Span<const float> q;
  int64_t num_actions = 0;              // A
  absl::Span<const uint8_t> mask = {};  // 0: illegal; empty: all actions are legal
};

// Writes value_i to `value` [B]; 0 for a row without a legal action.
void ComputeSoftValues(const SoftValueInput& input, double alpha, absl::Span<float> value);

// Returns the actor's loss; writes -entropy_i to `mean_log_prob` [B] and d loss / d logit to
// `d_logit` [B, A]. Illegal actions have gradient 0.
double ComputeDiscreteSacActorLoss(const SoftValueInput& input, double alpha,
                                   absl::Span<float> mean_log_prob, absl::Span<float> d_logit);

// The losses of TD3, DDPG and TD3+BC beside the loss of their critics. Actions are in [-1, 1].
//
//   target action  a_i <- clip(a_i + clip(sigma noise_i, -c, c), -1, 1)
//   actor          -lambda 1/B sum_i q_i    q: the first critic, of the actions a that the actor chooses now
//   cloning        1/(B n) sum_i |a_i - data_i|^2                         of TD3+BC, added to the actor's loss
//   lambda         alpha / (1/B sum_i |q_i|) for TD3+BC, without a gradient; 1 for TD3 and DDPG
//
// Sources: Fujimoto et al. 2018, eq. 14 and 15 (smoothing); Lillicrap et al. 2016, eq. 6 (the
// gradient); Fujimoto and Gu 2021 ("A minimalist approach to offline reinforcement learning", eq. 3
// and 5, and their code for the mean over the elements).

// Adds noise to `action`, as the formula above. `noise` has one standard normal number per element.
void SmoothTargetActions(absl::Span<const float> noise, double sigma, double clip,
                         absl::Span<float> action);

// Returns the actor's loss for `q` [B >= 1], and writes d loss / d q to `d_q` [B].
double ComputeDeterministicActorLoss(absl::Span<const float> q, absl::Span<float> d_q,
                                     double lambda = 1);

// Returns the mean of |q_i| over `q` [B >= 1].
double MeanAbsolute(absl::Span<const float> q);
// Returns lambda for this mean of |q_i|. A mean below 1e-6 counts as 1e-6, so that lambda is
// finite.
double ValueWeight(double alpha, double mean_absolute_q);
// Returns the cloning loss for `action` and `data` [B, n], and adds its gradient by `action` to
// `d_action` [B, n].
double AddCloningLoss(absl::Span<const float> action, absl::Span<const float> data,
                      absl::Span<float> d_action);

// The losses of implicit Q-learning beside the loss of its critics. q_i is the minimum of the
// target critics for the action of the data, and u_i = q_i - v_i.
//
//   value    1/B sum_i |tau - 1(u_i < 0)| u_i^2                 an expectile of q over the actions of the data
//   weight   w_i = min(exp(beta u_i), 100)                      no gradient
//   actor    -1/B sum_i w_i sum_j log N(action_i,j; mean_i,j, exp(log_std_j))
//
//   d actor / d mean_i,j  = -w_i / B (action_i,j - mean_i,j) / std_j^2
//   d actor / d log_std_j = -1/B sum_i w_i (((action_i,j - mean_i,j) / std_j)^2 - 1)
//
// Source: Kostrikov et al. 2021 ("Offline reinforcement learning with implicit Q-learning", eq. 5
// and 7); the bound of the weights and a deviation that does not depend on the observation are from
// its authors' code.
//
// Shapes: q, v and weight [B]; action and mean [B, n] row-major; log_std [n]; B, n >= 1. Actions
//         are in [-1, 1].

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

#endif  // DING_WORKER_POLICY_LOSS_OFF_POLICY_LOSS_H_
