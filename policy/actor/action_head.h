// The last step of an actor: from the outputs of its network to actions. A description names it by
// type:
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
// In "normal" and "squashed_normal", log_std is a parameter of the policy, not an output. A further
// type is a class in action_head.cc and a line of its table. Samples of the first five are those of
// the policies' collect mode for the same stream of random numbers; only IQN collects at random
// fractions instead of their middles.
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

  // The outputs of the network that it reads.
  virtual std::vector<FieldSpec> outputs() const = 0;
  // Reads its parameters, if it has any besides the network's, from the scope "model".
  virtual absl::Status Load(StateReader* /*model*/) { return absl::OkStatus(); }

  // Writes the best action of each row of `outputs` [B, ...] to rows [0, B) of `action`. `mask` [B,
  // W] are the legal categories; empty: all.
  //   kInvalidArgument  a row of the mask has no legal action
  //   kInternal         NaN or infinity in `outputs`; names the row
  virtual absl::Status Best(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                            const MutableColumnsView& action) = 0;
  // Likewise, but draws actions. `exploration` is the probability of a random action of heads "q"
  // and "q_distribution".
  virtual absl::Status Sample(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                              double exploration, Rng* rng, const MutableColumnsView& action) = 0;
};

//   kInvalidArgument  the action space does not fit the head
//   kUnimplemented    no head has this type; lists those there are
absl::StatusOr<std::unique_ptr<ActionHead>> MakeActionHead(absl::string_view type,
                                                           const SpecPtr& action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_ACTION_HEAD_H_
