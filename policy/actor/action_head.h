// The last step of an actor: it turns the outputs of the network into actions. A description names
// the head by type:
//
//   type               outputs          best action                  sampled action
//   "q"                "q" [A]          the highest value            random with the probability of exploration,
//                                                                    else the best
//   "q_distribution"   "q" [A], means   the highest mean             as "q"
//                      of returns
//   "categorical"      "logit" [W]      highest logit per element    by softmax
//   "normal"           "mean" [n]       mean                         mean + exp(log_std) * noise
//   "squashed_normal"  "mean" [n]       tanh(mean)                   tanh(mean + exp(log_std) * noise)
//   "tanh"             "mean" [n]       tanh(mean)                   tanh(mean)
//   "tanh_normal"      "mean" [n],      tanh(mean)                   tanh(mean + exp(log_std) * noise)
//                      "log_std" [n]
//
// The actions of the last four types are then scaled to the bounds ("normal": clipped to [-1, 1]
// before). In "normal" and "squashed_normal", log_std is a parameter of the policy, not an output;
// in "tanh_normal" it is clipped to [-20, 2]. For the same stream of random numbers, the first five
// types draw the same samples as the collect mode of the policy, except for IQN: its collect mode
// uses random quantile fractions, the head uses the midpoints of equal parts of [0, 1].
//
// To add a type, add a class to action_head.cc and a line to its table.
//
// Ownership: owns its parameters and working memory, which grows with the largest batch.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_ACTOR_ACTION_HEAD_H_
#define DING_WORKER_POLICY_ACTOR_ACTION_HEAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

class ActionHead {
 public:
  virtual ~ActionHead() = default;

  // Returns the outputs of the network that the head reads.
  virtual std::vector<FieldSpec> outputs() const = 0;
  // Loads the parameters of the head, if it has any, from the scope "model".
  virtual absl::Status Load(StateReader* /*model*/) { return absl::OkStatus(); }

  // Writes the best action of each row of `outputs` [B, ...] to rows [0, B) of `action`. `mask` [B,
  // W] has 1 for legal categories; empty: all are legal.
  //   kInvalidArgument  a row of the mask has no legal action
  //   kInternal         NaN or infinity in `outputs`; names the row
  virtual absl::Status Best(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                            const MutableColumnsView& action) = 0;
  // Does the same, but draws actions. `exploration` is the probability of a random action with
  // heads "q" and "q_distribution".
  virtual absl::Status Sample(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                              double exploration, Rng* rng, const MutableColumnsView& action) = 0;
};

// Makes the head of this type for an action space.
//   kInvalidArgument  the action space does not fit the head
//   kUnimplemented    there is no head of this type; the message lists the types
absl::StatusOr<std::unique_ptr<ActionHead>> MakeActionHead(absl::string_view type,
                                                           const SpecPtr& action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_ACTION_HEAD_H_
