// From the outputs of a network to actions: what a stochastic policy samples, how probable it was,
// and the gradients of that.
//
//     network ──head [B, W]──► Set() ──► Sample(), Mode() ──► actions
//                                └─────► LogProb(), Entropy()
//              d loss / d head ◄── Backward() ◄── d loss / d log_prob, d loss / d entropy [B]
//
//   action space             head                       probability of
//   Discrete, MultiDiscrete  "logit" [sum of counts]    "action": independent categories; illegal
//                                                       ones (policy/action_mask.h) have
//                                                       probability 0 and gradient 0
//   Box with finite bounds   "mean" [n], and one        "raw_action": independent normals; the
//                            log-std for each element   action is raw_action clipped to [-1, 1]
//                            that no observation moves  and scaled to the bounds
//
// The clipped action is what the env gets; the raw one is stored beside it, so that the probability
// is that of what was sampled. A standard deviation that does not depend on the observation is the
// usual one for PPO: it cannot collapse where there is little data.
//
// With p = softmax(z), H the entropy, u = (x - mean) / std:
//   d log p_a / d z_j  = [j = a] - p_j           d H / d z_j     = -p_j (log p_j + H)
//   d log p / d mean   = u / std                 d H / d log std = 1
//   d log p / d log std = u^2 - 1
// Imitation of given actions a needs no deviation:
//   categories         loss = -log p_a, summed over the elements
//   normals            loss = (mean - x)^2, averaged over the elements; x is what is clipped and
//                      scaled to a
// The latter is the likelihood with a fixed deviation. One that is learned would fall to 0 on actions
// that are a function of the observation, as those of most experts are, and the gradient by the mean
// would grow without bound.
// Sources: Sutton and Barto 2018, exercise 13.3 (softmax) and eq. 13.19 (normal); Williams 1992,
// section 6; the entropies by differentiation. The tests compare with finite differences.
//
// Shapes: rows [B], row-major. Sums are done in float64, columns are float32.
// Ownership: owns the log-std and working memory that grows with the largest batch; what is handed
//            to Set() must stay as it is until the last call that is about it.
// Threads:   thread-compatible.
// Errors:    a Status says what Set() cannot work with; spans of other lengths, and calls without
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
  // `action` is an action space: one field "action". `initial_log_std` counts for Box only, in
  // units of half the width of the bounds.
  //   kInvalidArgument  a space that is none of the above
  static absl::StatusOr<std::unique_ptr<ActionDistribution>> Create(const Spec& action,
                                                                    double initial_log_std = 0);
  virtual ~ActionDistribution() = default;

  // The output field of a network that Set() reads.
  virtual const FieldSpec& head() const = 0;
  // What Sample() writes: "action", and behind it "raw_action" if there is one.
  virtual absl::Span<const FieldSpec> sample_fields() const = 0;
  // The last of them: the one that LogProb() and Backward() are about.
  const FieldSpec& taken_field() const { return sample_fields().back(); }

  // Parameters beside the network's, to be learned and saved: "log_std" [n], or none.
  virtual absl::Span<const ParameterInfo> parameter_info() const { return {}; }
  virtual absl::Span<float> parameters() { return {}; }
  virtual absl::Span<float> gradients() { return {}; }

  // The distributions of the next calls: one for each row of `head` [B, W]. `mask` [B, W], or
  // empty.
  //   kInvalidArgument  a row of the mask has no legal action; names it
  //   kInternal         NaN or infinity in `head`; names the row
  virtual absl::Status Set(absl::Span<const float> head, absl::Span<const uint8_t> mask) = 0;

  // One draw for each row into rows [0, B) of the first fields of `out`, which are sample_fields().
  virtual void Sample(Rng* rng, const MutableColumnsView& out) = 0;
  // The most probable action of each row (of equal ones the lowest) into field 0 of `out`.
  virtual void Mode(const MutableColumnsView& out) = 0;
  // Of what was taken: field `field` of `rows`, laid out as taken_field(). -infinity for an illegal
  // action.
  virtual void LogProb(const ColumnsView& rows, int field, absl::Span<float> log_prob) = 0;
  virtual void Entropy(absl::Span<float> entropy) = 0;
  // Writes d loss / d head to `d_head` [B, W], and d loss / d parameters to gradients().
  virtual void Backward(const ColumnsView& rows, int field, absl::Span<const float> d_log_prob,
                        absl::Span<const float> d_entropy, absl::Span<float> d_head) = 0;

  // The mean over the rows of the loss of imitation of the actions, field `field` of `rows`, laid
  // out as "action": categories that exist, numbers. Writes its gradient to `d_head` [B, W].
  // Infinite for an illegal action.
  virtual double ImitationLoss(const ColumnsView& rows, int field, absl::Span<float> d_head) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTION_DISTRIBUTION_H_
