// The loss of R2D2 (Kapturowski et al. 2019, "Recurrent experience replay in distributed
// reinforcement learning", section 2.3) on B sequences of T rows, as functions of columns, for any
// network. Row t of sequence b is at b * T + t.
//
// The target of a row is computed from the row and the rows after it in its sequence. With rewards
// r, discounts d of one step (0 if the episode terminated) and the row i:
//
//   window    rows i .. e; it ends after n rows, or before at the last row of the episode in the
//             sequence
//   return    R_i = r_i + d_i r_(i+1) + ... + d_i ... d_(e-1) r_e
//   target_i = h(R_i + d_i ... d_e h^-1(V_e))         V_e: the value of next_obs of row e
//   td_i     = q[i, action_i] - target_i
//
//   h(x)  = sign(x) (sqrt(|x| + 1) - 1) + eps x       (Pohlen et al. 2018, "Observe and look further",
//                                                      section 3.2), or x
//
// Learning rows are the rows that are neither padding (mask 0) nor burn-in. With N learning rows in
// all sequences,
//
//   loss       = 1/N sum over the learning rows of weight_b f(td_i)               (f: policy/loss/td_loss.h)
//   priority_b = eta max |td_i| + (1 - eta) mean |td_i|   over the learning rows of sequence b; 0
//                                                         without any
//
// No gradient flows into the target.
//
// Shapes: q [B * T, A] row-major, other columns as the structs say; B, T, A >= 1; actions in [0,
// A).
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: takes none. Outputs must not overlap inputs.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_LOSS_R2D2_LOSS_H_
#define DING_WORKER_POLICY_LOSS_R2D2_LOSS_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "ding_worker/policy/loss/td_loss.h"

namespace ding {

// h, the scale in which a network predicts values.
struct ValueScale {
  std::optional<double> eps = 1e-3;  // at least 0; not set: h(x) = x

  double Rescale(double value) const;  // h
  double Invert(double value) const;   // h^-1
};

// Which rows of a batch follow one another.
struct SequenceRows {
  int64_t length = 1;              // T
  int64_t burn_in = 0;             // rows at the beginning of each sequence, below T
  absl::Span<const uint8_t> mask;  // [B * T], 0: padding; empty: no padding
  absl::Span<const uint8_t>
      is_first;  // [B * T], 1: begins an episode; empty: no row after the first does

  bool IsLearned(int64_t row) const {
    return row % length >= burn_in && (mask.empty() || mask[static_cast<size_t>(row)] != 0);
  }
  // Whether row + 1 continues the sequence, and the episode, of `row`.
  bool Continues(int64_t row) const {
    const auto next = static_cast<size_t>(row + 1);
    return (row + 1) % length != 0 && (mask.empty() || mask[next] != 0) &&
           (is_first.empty() || is_first[next] == 0);
  }
};

// For each row, the return, the discount and the end of its window.
struct SequenceReturns {
  absl::Span<float> reward;    // [B * T] R_i
  absl::Span<float> discount;  // [B * T] d_i ... d_e
  absl::Span<int64_t> end;     // [B * T] e
};

// Computes the windows of all rows. `reward` and `discount` [B * T] are the values of one step; `n`
// is at least 1.
void ComputeSequenceReturns(const SequenceRows& rows, absl::Span<const float> reward,
                            absl::Span<const float> discount, int64_t n,
                            const SequenceReturns& returns);

struct R2d2LossOptions {
  TdLossOptions penalty;
  ValueScale scale;
  double priority_eta = 0.9;  // in [0, 1]
};

struct R2d2LossInput {
  absl::Span<const float> q;           // [B * T, A] of the online network
  absl::Span<const int64_t> action;    // [B * T] the actions taken
  absl::Span<const float> reward;      // [B * T] R_i
  absl::Span<const float> discount;    // [B * T] d_i ... d_e
  absl::Span<const float> next_value;  // [B * T] V_e, in the scale of the network
  absl::Span<const float> weight;      // [B] of the sequences, or empty: all 1
};

struct R2d2LossResult {
  double loss = 0;
  int64_t learned_rows = 0;    // N; if it is 0, so are the other fields
  double mean_q = 0;           // mean over the learning rows of q[i, action_i]
  double mean_next_value = 0;  // mean of V_e, which counts as 0 where the discount is 0
};

// Writes td_i, or 0 where nothing is learned, to `td_error` [B * T], d loss / d q to `d_q` [B * T,
// A] and the priorities to `priority` [B].
R2d2LossResult ComputeR2d2Loss(const SequenceRows& rows, const R2d2LossInput& input,
                               const R2d2LossOptions& options, absl::Span<float> td_error,
                               absl::Span<float> d_q, absl::Span<float> priority);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_R2D2_LOSS_H_
