// The last step of an actor: it turns the outputs of the network into actions. A description names
// the head by type:
//
//   type           outputs        best action                      sampled action
//   "q"            "q" [A]        the highest value                random with the probability of exploration,
//                                                                  else the best
//   "q_distribution"  "q" [A], the means of distributions of returns    likewise
//   "categorical"  "logit" [W]    the highest logit per element    by softmax
//   "normal"       "mean" [n]     the mean, scaled to the bounds   mean + exp(log_std) * noise, likewise
//   "squashed_normal"  "mean" [n]  tanh(mean), likewise            tanh(mean + exp(log_std) * noise), likewise
//   "tanh"         "mean" [n]     tanh(mean), likewise             the best one
//   "tanh_normal"  "mean" [n],    tanh(mean), likewise             tanh(mean + exp(log_std) * noise), likewise, with
//                  "log_std" [n]                                   log_std clipped to [-20, 2]
//
// In "normal" and "squashed_normal", log_std is a parameter of the policy, not an output. To add a
// type, add a class to action_head.cc and a line to its table. For the same stream of random
// numbers, the first five types draw the same samples as the policies' collect mode. Only IQN
// differs: it collects at random fractions, not at the middles of equal parts of [0, 1].
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
  // Reads the head's own parameters, if it has any, from the scope "model".
  virtual absl::Status Load(StateReader* /*model*/) { return absl::OkStatus(); }

  // Writes the best action of each row of `outputs` [B, ...] to rows [0, B) of `action`. `mask` [B,
  // W] are the legal categories; empty: all.
  //   kInvalidArgument  a row of the mask has no legal action
  //   kInternal         NaN or infinity in `outputs`; names the row
  virtual absl::Status Best(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                            const MutableColumnsView& action) = 0;
  // Does the same, but draws actions. `exploration` is the probability of a random action with
  // heads "q" and "q_distribution".
  virtual absl::Status Sample(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                              double exploration, Rng* rng, const MutableColumnsView& action) = 0;
};

//   kInvalidArgument  the action space does not fit the head
//   kUnimplemented    no head has this type; lists the existing types
absl::StatusOr<std::unique_ptr<ActionHead>> MakeActionHead(absl::string_view type,
                                                           const SpecPtr& action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_ACTION_HEAD_H_
