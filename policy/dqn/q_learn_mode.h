// The learn mode of the algorithms of Q-learning: target network, optimizer, saved state and report. A
// subclass computes the loss of a batch and its gradient.
//
// The optional setting "lr" is the learning rate from then on. An iteration reports the scalars cur_lr,
// total_loss, q_value, target_q_value and td_error (the mean of |td error|), the td errors as a histogram, and
// priorities if these are configured. Every 10th iteration it reports grad_norm, too: the norm of the gradient,
// before it is clipped.
//
// Saved: model "model/<parameter>"; train state "optimizer/...", "target_model/<parameter>", "train_iter".
//
// Ownership: uses the network, which must outlive it; owns target network and optimizer.
// Threads:   thread-compatible.
// Errors:    they begin with the algorithm and the number of the training iteration. A failed call changes no
//            parameters, optimizer, target network and counters.
#ifndef DING_WORKER_POLICY_DQN_Q_LEARN_MODE_H_
#define DING_WORKER_POLICY_DQN_Q_LEARN_MODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/dqn/dqn_options.h"
#include "ding_worker/policy/dqn/q_network.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/group_adam.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The loss of a batch.
struct QLoss {
  double loss = 0;
  double mean_q = 0;                 // of the actions taken
  double mean_next_value = 0;        // of the bootstrap values, before the discount
  int64_t rows = 0;                  // over which the loss is a mean
  absl::Span<const float> td_error;  // one for each row of the batch
  absl::Span<const float> priority;  // of the batch; empty: |td_error|
};

class QLearnMode : public GradientLearnMode {
 public:
  // What it owns, made from the network. kInvalidArgument if the options are out of range.
  struct Parts {
    std::unique_ptr<Network> target;
    GroupAdam adam;
  };
  static absl::StatusOr<Parts> MakeParts(const QNetwork& network, const DqnOptions& options);

  absl::Status SaveModel(StateWriter* writer) const override;
  absl::Status LoadModel(StateReader* reader) override;

 protected:
  QLearnMode(QNetwork* network, const DqnOptions& options, Parts parts);

  // Computes the loss of `data` and, if it is finite, the gradients of the network. The spans are valid until the next call.
  virtual absl::StatusOr<QLoss> ComputeLoss(const Batch& data) = 0;

  // Writes the value of the best legal action of each row to `value` [B]: the action is chosen by
  // `online_q` [B, A] with double Q-learning, which is not read otherwise, and its value is in `target_q`.
  void SelectValue(absl::Span<const float> online_q, absl::Span<const float> target_q,
                   absl::Span<const uint8_t> mask, absl::Span<float> value) const;

  QNetwork& network() const { return network_; }
  Network& target() { return *target_; }
  const DqnOptions& options() const { return options_; }

 private:
  absl::StatusOr<int64_t> ComputeGradients(const Batch& data, const NamedValues& settings,
                                           LearnStep* step) override;
  void AfterStep(LearnStep* step) override;
  void Report(const QLoss& loss, LearnStep* step) const;

  QNetwork& network_;
  const DqnOptions options_;
  const std::unique_ptr<Network> target_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DQN_Q_LEARN_MODE_H_
