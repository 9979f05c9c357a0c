// The heads of Q networks that learn the distribution of the return: by categories (C51, Rainbow)
// and by quantiles (QR-DQN, IQN).
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_DISTRIBUTIONAL_DISTRIBUTIONAL_HEADS_H_
#define DING_WORKER_POLICY_DISTRIBUTIONAL_DISTRIBUTIONAL_HEADS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/loss/distributional_loss.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/q_learning/q_network.h"

namespace ding {

// The head of C51 and Rainbow: the outputs of an action are the logits of the probabilities of its
// returns (policy/loss/distributional_loss.h). The value is the mean; the td error is the
// divergence of the distributions.
class CategoricalHead : public QHead {
 public:
  explicit CategoricalHead(const CategoricalSupport& support) : support_(support) {}

  Shape OutputShape(int64_t num_actions) const override { return {num_actions, support_.atoms}; }
  absl::Span<const float> Values(absl::Span<const float> outputs,
                                 std::vector<float>* memory) override {
    memory->resize(outputs.size() / static_cast<size_t>(support_.atoms));
    ComputeCategoricalMeans(outputs, support_, absl::MakeSpan(*memory));
    return *memory;
  }
  TdLossResult ComputeLoss(const QHeadInput& input, absl::Span<float> td_error,
                           absl::Span<float> d_outputs) override {
    return ComputeCategoricalLoss(
        {input.outputs, input.action, input.reward, input.discount, input.next, input.weight},
        support_, td_error, d_outputs);
  }

 private:
  const CategoricalSupport support_;
};

// The head of QR-DQN and IQN: the outputs of an action are quantiles of its return
// (policy/loss/distributional_loss.h). The value is their mean; the td error of a row is its loss,
// divided by the number of quantiles.
class QuantileHead : public QHead {
 public:
  // The outputs are the quantiles at the middles of `num_quantiles` equal parts of [0, 1], as in
  // QR-DQN.
  QuantileHead(int64_t num_quantiles, float kappa)
      : middles_(static_cast<size_t>(num_quantiles)), fraction_(middles_), kappa_(kappa) {
    FillMiddleFractions(absl::MakeSpan(middles_));
  }
  // The outputs are the quantiles at `fraction`, as in IQN. `fraction` belongs to the online
  // IqnNetwork and changes with it.
  QuantileHead(absl::Span<const float> fraction, float kappa)
      : fraction_(fraction), kappa_(kappa) {}

  Shape OutputShape(int64_t num_actions) const override {
    return {num_actions, static_cast<int64_t>(fraction_.size())};
  }
  absl::Span<const float> Values(absl::Span<const float> outputs,
                                 std::vector<float>* memory) override {
    memory->resize(outputs.size() / fraction_.size());
    ComputeQuantileMeans(outputs, absl::MakeSpan(*memory));
    return *memory;
  }
  TdLossResult ComputeLoss(const QHeadInput& input, absl::Span<float> td_error,
                           absl::Span<float> d_outputs) override {
    return ComputeQuantileLoss({input.outputs, fraction_, input.action, input.reward,
                                input.discount, input.next, input.weight},
                               kappa_, td_error, d_outputs);
  }

 private:
  std::vector<float> middles_;
  const absl::Span<const float> fraction_;
  const float kappa_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DISTRIBUTIONAL_DISTRIBUTIONAL_HEADS_H_
