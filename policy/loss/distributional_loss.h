// The losses of algorithms that learn the distribution of the return, as functions of columns, for
// any network: C51 by categories, QR-DQN and IQN by quantiles.
//
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_DISTRIBUTIONAL_LOSS_H_
#define DING_WORKER_POLICY_LOSS_DISTRIBUTIONAL_LOSS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ding_worker/policy/loss/td_loss.h"

namespace ding {

// The loss of C51 (Bellemare et al. 2017, "A Distributional Perspective on Reinforcement Learning",
// algorithm 1).
//
// The return of an action has one of N values, the atoms z_k = v_min + k (v_max - v_min) / (N - 1),
// with the probabilities softmax(logit). Its target is the distribution of reward + discount * z, z
// distributed by softmax(next_logit), where each value is clipped to [v_min, v_max] and split
// between the two atoms beside it:
//
//   m_i   [N]  the target of row i            p_i = softmax(logit[i, action_i])
//   loss  = 1/B sum_i weight_i (- sum_k m_ik log p_ik)
//   td_i  = sum_k m_ik log(m_ik / p_ik), the divergence from p_i to m_i: at least 0, and 0 if they
//           are equal. Rainbow (Hessel et al. 2018) takes it as the priority of a row
//
// No gradient flows into the target.
//
// Shapes: logit [B, A, N] row-major, next_logit [B, N], everything else [B]; B, A >= 1; actions in
//         [0, A).
// Errors: NaN and infinity in the data make the loss not finite.

struct CategoricalSupport {
  float v_min = -10;
  float v_max = 10;    // above v_min
  int64_t atoms = 51;  // in [2, kMaxAtoms]

  float step() const { return (v_max - v_min) / static_cast<float>(atoms - 1); }
};
inline constexpr int64_t kMaxAtoms = 4096;

// Writes the means of the distributions softmax(logit) [n, N] to `mean` [n].
void ComputeCategoricalMeans(absl::Span<const float> logit, const CategoricalSupport& support,
                             absl::Span<float> mean);

struct CategoricalLossInput {
  absl::Span<const float> logit;        // [B, A, N] of the online network
  absl::Span<const int64_t> action;     // [B] the actions taken
  absl::Span<const float> reward;       // [B] summed over the n-step window
  absl::Span<const float> discount;     // [B] 0: terminated within the window
  absl::Span<const float> next_logit;   // [B, N] for the action of the bootstrap
  absl::Span<const float> weight = {};  // [B], or empty: all 1
};

// Writes td_i to `td_error` [B] and d loss / d logit to `d_logit` [B, A, N]. The means in the
// result are the means of the distributions.
TdLossResult ComputeCategoricalLoss(const CategoricalLossInput& input,
                                    const CategoricalSupport& support, absl::Span<float> td_error,
                                    absl::Span<float> d_logit);

// The quantile Huber loss of QR-DQN (Dabney et al. 2018, "Distributional Reinforcement Learning
// with Quantile Regression", eq. 10) and IQN (Dabney et al. 2018, "Implicit Quantile Networks", eq.
// 3).
//
// q[i, a, n] is the quantile of the return of action a at fraction[n]; next[i, m] are samples of
// the return of the action of the bootstrap.
//
//   u_inm  = reward_i + discount_i * next[i, m] - q[i, action_i, n]
//   row_i  = 1/M sum_n sum_m |fraction_n - 1(u_inm < 0)| huber(u_inm) / kappa
//   huber(u) = u^2 / 2 if |u| <= kappa, else kappa (|u| - kappa / 2)
//   loss   = 1/B sum_i weight_i row_i
//   td_i   = row_i / N, for priorities and reports
//
// No gradient flows into the target. As in IQN, the division by kappa makes the loss the absolute
// error for a small kappa; for kappa = 1 it is also the loss of QR-DQN.
//
// Shapes: q [B, A, N] row-major, next [B, M], fraction [N], everything else [B]; B, A, N, M >= 1;
//         actions in [0, A).

inline constexpr int64_t kMaxQuantiles = 4096;

// The middles of N equal parts of [0, 1]: fraction[n] = (n + 1/2) / N.
void FillMiddleFractions(absl::Span<float> fraction);

// Writes the means over the quantiles [n, N] to `mean` [n].
void ComputeQuantileMeans(absl::Span<const float> quantiles, absl::Span<float> mean);

struct QuantileLossInput {
  absl::Span<const float> q;            // [B, A, N] of the online network
  absl::Span<const float> fraction;     // [N], at most kMaxQuantiles
  absl::Span<const int64_t> action;     // [B] the actions taken
  absl::Span<const float> reward;       // [B] summed over the n-step window
  absl::Span<const float> discount;     // [B] 0: terminated within the window
  absl::Span<const float> next;         // [B, M], M at most kMaxQuantiles
  absl::Span<const float> weight = {};  // [B], or empty: all 1
};

// Writes td_i to `td_error` [B] and d loss / d q to `d_q` [B, A, N]. The means in the result are
// means over the quantiles. `kappa` is above 0.
TdLossResult ComputeQuantileLoss(const QuantileLossInput& input, float kappa,
                                 absl::Span<float> td_error, absl::Span<float> d_q);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_DISTRIBUTIONAL_LOSS_H_
