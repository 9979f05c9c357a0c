// Your own loss, which replaces the loss of an algorithm: `loss { type: "mine" }` in the config of
// a policy.
//
// The policy does everything else as usual: it collects, computes the outputs of its networks, runs
// their backward passes, steps, reports and saves. The loss reads columns and writes its gradients
// by the outputs. There are two ways to write a loss:
//
//   by autograd  a function of tensors (policy/torch/torch_loss.h): quick to write
//   by hand      a LossFunction that computes the derivatives itself: fast, and without torch
//
// Register it in LossRegistry() (policy/policy_registry.h). policy/gradient_check.h compares it
// with finite differences, or the two ways with each other.
//
//   policy           columns of the batch       outputs                   target
//   dqn              action reward discount     q [B, A]                  next_q [B, A] next_value
//                    action_mask [B, A]                                   q [B, A], see below
//                    next_action_mask [B, A]
//   ppo, a2c         adv return                 log_prob entropy value    log_prob value
//   sac, td3, ddpg:
//     loss           action [B, n] reward       q0 q1 ...                 next_value
//                    discount
//     actor_loss     action [B, n]              q0 q1 ... action [B, n]
//                                               log_prob
//
// Other columns are [B]. All are float32, but the action of dqn is int64. The masks are uint8, 0 if
// the action is illegal; they exist if the env has a mask.
//
//   dqn              next_q is the target network's output for next_obs, next_value its value of
//                    the best action in next_obs (the online network chooses it if double_dqn is
//                    set; 0 if no action is legal). target "q" is the target network's output for
//                    obs, if reads_target_of_obs() returns true
//   ppo, a2c         target has the values of the policy that acted. numbers: "value_weight",
//                    "entropy_weight", "clip_ratio", "value_clip"
//   loss             of the critics: q0, q1, ... are their values of the action of the batch,
//                    next_value is the value of the next actions, with sac minus the cost of
//                    entropy
//   actor_loss       q0, ... are the critics' values of the action that the actor takes now; td3
//                    and ddpg have q0 alone. The gradient by q goes on to the action through the
//                    critics, and the gradient by "action" is added to it. Only sac has log_prob
//                    and the number "alpha". Actions are in [-1, 1]
//
// Threads:   thread-compatible.
// Ownership: columns are valid during a call.
#ifndef DING_WORKER_POLICY_LOSS_LOSS_FUNCTION_H_
#define DING_WORKER_POLICY_LOSS_LOSS_FUNCTION_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/named_values.h"

namespace ding {

// A column [B], or [B, width] row-major.
struct LossColumn {
  std::string name;
  std::variant<absl::Span<const float>, absl::Span<const int64_t>, absl::Span<const uint8_t>>
      values;
  int64_t width = 0;  // 0: [B]
};

// An output of the networks, and the place for d loss / d output, which has as many elements.
struct LossOutput {
  std::string name;
  absl::Span<const float> values;
  absl::Span<float> gradient;
  int64_t width = 0;
};

struct LossInput {
  int64_t rows = 0;                     // B
  std::vector<LossColumn> batch;        // constants
  std::vector<LossOutput> outputs;      // what the loss depends on
  std::vector<LossColumn> target;       // outputs of networks that are not trained: constants
  NamedValues numbers;                  // settings that may change in a run
  absl::Span<const float> weight = {};  // [B] importance weights of the buffer; empty: 1
  absl::Span<const uint8_t> mask = {};  // [B] 0: padding, to be ignored; empty: no padding
};

struct LossValue {
  double loss = 0;
  // [B] the td errors for priorities and reports; empty: the td errors of the algorithm. Losses of
  // on-policy policies and of actors have none.
  std::vector<float> td_error = {};
  // Reported in addition to the algorithm's scalars; replaces scalars of the same names.
  NamedValues scalars = {};
};

class LossFunction {
 public:
  virtual ~LossFunction() = default;

  // Whether it reads target "q" in dqn, which costs a further pass through the target network.
  virtual bool reads_target_of_obs() const { return false; }

  // Returns the loss, and writes all elements of all gradients. After an error no parameter
  // changes. The policy adds the number of the iteration to the message.
  virtual absl::StatusOr<LossValue> Compute(const LossInput& input) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_LOSS_FUNCTION_H_
