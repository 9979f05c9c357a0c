// Distributions over actions, from the outputs of a network: samples, log-probabilities, entropies
// and their gradients.
//
//     network ──head [B, W]──► Set() ──► Sample(), Mode() ──► actions
//                                └─────► LogProb(), Entropy()
//              d loss / d head ◄── Backward() ◄── d loss / d log_prob, d loss / d entropy [B]
//
//   action space             head                       probability of
//   Discrete, MultiDiscrete  "logit" [sum of counts]    "action": independent categories; illegal
//                                                       ones (policy/action_space.h) have
//                                                       probability 0 and gradient 0
//   Box with finite bounds   "mean" [n], and a          "raw_action": independent normals; the
//                            parameter log-std per      action is raw_action clipped to [-1, 1]
//                            element                    and scaled to the bounds
//   Box, squashed            likewise                   the action is tanh(raw_action), scaled to the
//                                                       bounds; probability of tanh(raw_action)
//
// The env gets the clipped or squashed action. The raw action is stored as well: LogProb() computes
// the probability from it, without inverting tanh. The standard deviation does not depend on the
// observation, as usual for PPO, so that it cannot collapse where data are sparse.
//
// With p = softmax(z), H the entropy, u = (x - mean) / std:
//   d log p_a / d z_j  = [j = a] - p_j           d H / d z_j     = -p_j (log p_j + H)
//   d log p / d mean   = u / std                 d H / d log std = 1
//   d log p / d log std = u^2 - 1
// Squashed by a = tanh(x), with z standard normal:
//   log p(a)     = log p(x) - sum log(1 - a^2)
//   log(1 - a^2) = 2 (log 2 - |x| - log(1 + exp(-2 |x|)))
//   H(a)         = H(x) + sum E[log(1 - tanh(mean + std z)^2)]
//   d H / d mean    = E[-2 tanh(mean + std z)]
//   d H / d log std = 1 + E[-2 tanh(mean + std z) std z]
// The gradients of log p are those of the normal distribution, because x is given. The expectations
// are Gauss-Hermite sums of 20 nodes: the entropy is within 2e-4 for deviations up to 1.5, 2e-3 up
// to 2, and 2e-2 up to 3. Mode() gives tanh(mean), the median, as in policy/continuous. The
// imitation loss of given actions needs no deviation:
//   categories         loss = -log p_a, summed over the elements
//   normals            loss = (mean - x)^2, averaged over the elements, where x is a before
//                      scaling; squashed: (tanh(mean) - x)^2
// The loss of normals is the negative log-likelihood with a fixed deviation, up to constants. A
// deviation that is learned would fall to 0 if the actions are a function of the observation, as
// for most experts, and the gradient by the mean would then grow without bound.
//
// Sources: Sutton and Barto 2018, exercise 13.3 (softmax) and eq. 13.19 (normal); Williams 1992,
// section 6. The entropies follow by differentiation; tests compare all gradients with finite
// differences.
//
// Shapes: rows [B], row-major. Sums use float64, columns are float32.
// Ownership: owns the log-std and working memory that grows with the largest batch. The arguments
//            of Set() must stay unchanged until the last call that uses them.
// Threads:   thread-compatible.
// Errors:    Set() returns a Status for invalid inputs. Spans of a wrong length, and calls without
//            Set(), are mistakes of the caller and end the program.
#ifndef DING_WORKER_POLICY_ACTION_DISTRIBUTION_H_
#define DING_WORKER_POLICY_ACTION_DISTRIBUTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"

namespace ding {

class ActionDistribution {
 public:
  // `action` is an action space: one field "action". `initial_log_std` is used for Box only, in
  // units of half the width of the bounds. `squash`: tanh bounds the actions, instead of clipping.
  //   kInvalidArgument  an action space that is not listed above, or `squash` with categories
  static absl::StatusOr<std::unique_ptr<ActionDistribution>> Create(const Spec& action,
                                                                    double initial_log_std = 0,
                                                                    bool squash = false);
  virtual ~ActionDistribution() = default;

  // The output field of a network that Set() reads.
  virtual const FieldSpec& head() const = 0;
  // The fields that Sample() writes: "action" and, for Box, "raw_action".
  virtual absl::Span<const FieldSpec> sample_fields() const = 0;
  // Returns the last of sample_fields(): LogProb() and Backward() compute its probability.
  const FieldSpec& taken_field() const { return sample_fields().back(); }

  // The distribution's own parameters, to learn and save: "log_std" [n], or none.
  virtual absl::Span<const ParameterInfo> parameter_info() const { return {}; }
  virtual absl::Span<float> parameters() { return {}; }
  virtual absl::Span<float> gradients() { return {}; }

  // Sets the distributions for the next calls, one per row of `head` [B, W]. `mask` is [B, W] or
  // empty.
  //   kInvalidArgument  a row of the mask has no legal action; the error names it
  //   kInternal         NaN or infinity in `head`; the error names the row
  virtual absl::Status Set(absl::Span<const float> head, absl::Span<const uint8_t> mask) = 0;

  // Draws an action per row into rows [0, B) of the first fields of `out`, which are
  // sample_fields().
  virtual void Sample(Rng* rng, const MutableColumnsView& out) = 0;
  // Writes the most probable action of each row to field 0 of `out`; among equals the lowest one.
  virtual void Mode(const MutableColumnsView& out) = 0;
  // Computes the log-probability of the actions in field `field` of `rows`, which has the layout of
  // taken_field(). It is -infinity for an illegal action.
  virtual void LogProb(const ColumnsView& rows, int field, absl::Span<float> log_prob) = 0;
  virtual void Entropy(absl::Span<float> entropy) = 0;
  // Writes d loss / d head to `d_head` [B, W], and d loss / d parameters to gradients().
  virtual void Backward(const ColumnsView& rows, int field, absl::Span<const float> d_log_prob,
                        absl::Span<const float> d_entropy, absl::Span<float> d_head) = 0;

  // Returns the imitation loss of the actions in field `field` of `rows`, which has the layout of
  // "action", averaged over the rows. Writes its gradient to `d_head` [B, W]. The categories must
  // exist; the loss is infinite for an illegal action.
  virtual double ImitationLoss(const ColumnsView& rows, int field, absl::Span<float> d_head) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTION_DISTRIBUTION_H_
