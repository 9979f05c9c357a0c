// A network of Q values, and the head that says what its outputs mean. The modes of a Q-learning
// algorithm share both.
#ifndef DING_WORKER_POLICY_Q_LEARNING_Q_NETWORK_H_
#define DING_WORKER_POLICY_Q_LEARNING_Q_NETWORK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"

namespace ding {

// The columns of a loss; W is the number of outputs of an action.
struct QHeadInput {
  absl::Span<const float> outputs;      // [B, A, W] of the online network for obs
  absl::Span<const int64_t> action;     // [B] the actions taken
  absl::Span<const float> reward;       // [B] summed over the n-step window, of ComputeTarget()
  absl::Span<const float> discount;     // [B] 0: terminated within the window
  absl::Span<const float> next;         // [B, W] of ComputeTarget()
  absl::Span<const float> weight = {};  // [B], or empty: all 1
  absl::Span<const uint8_t> mask = {};  // [B, A] of the legal actions in obs; empty: all
};

// The columns from which a target is computed.
struct QTargetInput {
  int64_t num_actions = 0;              // A
  absl::Span<const int64_t> action;     // [B] the actions taken in obs
  absl::Span<const float> discount;     // [B] 0: terminated within the window
  absl::Span<const float> chooser;      // [B, A, W] for next_obs: of the online network with double
                                        // Q-learning, else of the target network
  absl::Span<const float> next;         // [B, A, W] of the target network for next_obs
  absl::Span<const uint8_t> next_mask;  // [B, A] of the legal actions in next_obs; empty: all
  absl::Span<const uint8_t> mask;       // likewise in obs
  // Computes the outputs [B, A, W] of the target network for obs, in a further pass.
  absl::FunctionRef<absl::StatusOr<absl::Span<const float>>()> target_of_obs;
};

// What the outputs of a Q network mean: how the value of an action follows from them, and the
// target and the loss that train them. Acting, networks, optimizer and reports are the same for all
// heads. Your own algorithm derives from ValueHead, and overrides its target or its loss.
//
//     network ──► "q" [B, A, W] ──┬── Values() ──► q [B, A] ──► greedy actions
//                                 ├── ComputeTarget() ──► reward [B], next [B, W]
//                                 └── ComputeLoss(reward, next) ──► loss, d_outputs
//
// An action has W outputs: its value (ValueHead below), or the parameters of the distribution of
// its return (policy/distributional). R2D2 has a target and a loss of its own
// (policy/loss/r2d2_loss.h).
//
// Threads: thread-compatible.
class QHead {
 public:
  virtual ~QHead() = default;

  // The shape of a row of the network's output field "q".
  virtual Shape OutputShape(int64_t num_actions) const = 0;

  // Returns the values [B, A] of `outputs` [B, A, W]. The result is a view of `outputs` or of
  // `memory`.
  virtual absl::Span<const float> Values(absl::Span<const float> outputs,
                                         std::vector<float>* memory) = 0;

  // Writes the outputs from which each row bootstraps to `next` [B, W], and may change `reward`
  // [B]. No gradient flows into them. By default `next` has the outputs of the legal action that is
  // best by the values of `chooser`; 0 for a row without a legal action, whose discount is 0. An
  // error ends the iteration.
  virtual absl::Status ComputeTarget(const QTargetInput& input, absl::Span<float> reward,
                                     absl::Span<float> next);

  // Writes d loss / d outputs to `d_outputs` [B, A, W]. Writes the values for priorities and
  // reports, which each head defines, to `td_error` [B]. If the loss is not finite, the data or the
  // outputs are not finite.
  virtual TdLossResult ComputeLoss(const QHeadInput& input, absl::Span<float> td_error,
                                   absl::Span<float> d_outputs) = 0;

 private:
  std::vector<float> chooser_values_;  // [B, A], unless the outputs are the values
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

// Returns the number of actions of a space that Q-learning supports: one discrete scalar field
// "action".
//   kInvalidArgument  any other space; the message begins with `algorithm`
absl::StatusOr<int64_t> CountActions(const Spec& action, absl::string_view algorithm = "dqn");

// A network of Q values with its head and its spaces.
//
// Ownership: owns network and head.
// Threads:   thread-compatible.
class QNetwork {
 public:
  // `network` has one output field, "q" of head->OutputShape(), and reads
  // WithoutActionMask(observation). If `observation` is null, it is the input spec of the network.
  // Without a `head` the outputs are the values. Messages begin with `algorithm`, such as "dqn".
  //   kInvalidArgument  a space or the network does not fit
  static absl::StatusOr<std::unique_ptr<QNetwork>> Create(absl::string_view algorithm,
                                                          std::unique_ptr<Network> network,
                                                          SpecPtr action, SpecPtr observation,
                                                          std::unique_ptr<QHead> head = nullptr);

  const std::string& algorithm() const { return algorithm_; }
  Network& network() const { return *network_; }
  QHead& head() const { return *head_; }
  const SpecPtr& observation() const { return observation_; }
  const SpecPtr& action() const { return action_; }
  int64_t num_actions() const { return num_actions_; }

  // Returns the fields of `obs` that the network reads; valid until the next call.
  ColumnsView Inputs(const ColumnsView& obs);
  bool has_mask() const { return mask_field_.has_value(); }
  // Returns the mask [B, A] of the legal actions in `obs`; empty if all are legal.
  absl::Span<const uint8_t> MaskOf(const ColumnsView& obs) const;
  // Returns row `row` of `values` [B, A]; empty if `values` is empty.
  template <typename T>
  absl::Span<const T> OfRow(absl::Span<const T> values, int64_t row) const {
    if (values.empty()) return values;
    return values.subspan(static_cast<size_t>(row * num_actions_),
                          static_cast<size_t>(num_actions_));
  }
  // Checks that `next_mask`, the mask of next_obs, has a legal action wherever `discount` [B] is
  // not 0, because the episode continues there. kInvalidArgument names the first such row without a
  // legal action.
  absl::Status CheckCanBootstrap(absl::Span<const uint8_t> next_mask,
                                 absl::Span<const float> discount) const;

  // Loads the parameters "model/...".
  absl::Status LoadModel(StateReader* reader);

 private:
  QNetwork(absl::string_view algorithm, std::unique_ptr<Network> network,
           std::unique_ptr<QHead> head, SpecPtr observation, SpecPtr action, int64_t num_actions,
           std::optional<int> mask_field);

  const std::string algorithm_;
  const std::unique_ptr<Network> network_;
  const std::unique_ptr<QHead> head_;
  const SpecPtr observation_;
  const SpecPtr action_;
  const int64_t num_actions_;
  const std::optional<int> mask_field_;  // index in the observation
  ColumnBinding inputs_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_Q_LEARNING_Q_NETWORK_H_
