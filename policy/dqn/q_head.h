// What the outputs of a Q network mean: how the value of an action follows from them, and the loss that trains
// them. Acting, double Q-learning, target network, optimizer and reports are the same for all heads.
//
//     network ──► "q" [B, A, W] ──┬── Values() ──► q [B, A] ──► greedy actions, action of the bootstrap
//                                 └── ComputeLoss(next [B, W] of that action) ──► loss, d_outputs
//
// An action has W outputs: its value (ValueHead below), or the parameters of the distribution of its return
// (policy/distributional).
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_DQN_Q_HEAD_H_
#define DING_WORKER_POLICY_DQN_Q_HEAD_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/loss/td_loss.h"

namespace ding {

// The columns of a loss; W is the number of outputs of an action.
struct QHeadInput {
  absl::Span<const float> outputs;   // [B, A, W] of the online network for obs
  absl::Span<const int64_t> action;  // [B] the actions taken
  absl::Span<const float> reward;    // [B] summed over the n-step window
  absl::Span<const float> discount;  // [B] 0: terminated within the window
  absl::Span<const float> next;      // [B, W] of the target network for the action of the bootstrap
  absl::Span<const float> weight = {};  // [B], or empty: all 1
  absl::Span<const uint8_t> mask =
      {};  // [B, A] of the legal actions in obs, or empty: all are legal
};

class QHead {
 public:
  virtual ~QHead() = default;

  // The shape of a row of the network's output field "q".
  virtual Shape OutputShape(int64_t num_actions) const = 0;

  // Returns the values [B, A] of outputs [B, A, W]: the outputs themselves, or in `memory`.
  virtual absl::Span<const float> Values(absl::Span<const float> outputs,
                                         std::vector<float>* memory) = 0;

  // Writes d loss / d outputs to `d_outputs` [B, A, W] and to `td_error` [B] what priorities and reports are
  // made of: the head says what it is. A loss that is not finite says that the data or outputs are not.
  virtual TdLossResult ComputeLoss(const QHeadInput& input, absl::Span<float> td_error,
                                   absl::Span<float> d_outputs) = 0;
};

// The output of an action is its value (policy/loss/td_loss.h).
class ValueHead : public QHead {
 public:
  explicit ValueHead(const TdLossOptions& options = {}) : options_(options) {}

  Shape OutputShape(int64_t num_actions) const override { return {num_actions}; }
  absl::Span<const float> Values(absl::Span<const float> outputs,
                                 std::vector<float>* /*memory*/) override {
    return outputs;
  }
  TdLossResult ComputeLoss(const QHeadInput& input, absl::Span<float> td_error,
                           absl::Span<float> d_outputs) override {
    return ComputeTdLoss(
        {input.outputs, input.action, input.reward, input.discount, input.next, input.weight},
        options_, td_error, d_outputs);
  }

 private:
  const TdLossOptions options_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DQN_Q_HEAD_H_
