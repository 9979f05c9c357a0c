// The head of C51 and Rainbow: the outputs of an action are the logits of the probabilities of its returns
// (policy/loss/categorical_loss.h). The value is the mean; the td error is the divergence of the distributions.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_DISTRIBUTIONAL_CATEGORICAL_HEAD_H_
#define DING_WORKER_POLICY_DISTRIBUTIONAL_CATEGORICAL_HEAD_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/dqn/q_head.h"
#include "ding_worker/policy/loss/categorical_loss.h"
#include "ding_worker/policy/loss/td_loss.h"

namespace ding {

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

}  // namespace ding

#endif  // DING_WORKER_POLICY_DISTRIBUTIONAL_CATEGORICAL_HEAD_H_
