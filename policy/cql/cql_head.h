// The head of discrete CQL: values whose loss is that of Q-learning (policy/loss/td_loss.h) plus a conservative penalty
// (policy/loss/cql_loss.h). The td error is that of Q-learning.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_CQL_CQL_HEAD_H_
#define DING_WORKER_POLICY_CQL_CQL_HEAD_H_

#include "absl/types/span.h"
#include "ding_worker/policy/dqn/q_head.h"
#include "ding_worker/policy/loss/cql_loss.h"
#include "ding_worker/policy/loss/td_loss.h"

namespace ding {

class CqlHead : public ValueHead {
 public:
  CqlHead(const TdLossOptions& options, double alpha) : ValueHead(options), alpha_(alpha) {}

  TdLossResult ComputeLoss(const QHeadInput& input, absl::Span<float> td_error,
                           absl::Span<float> d_outputs) override {
    TdLossResult result = ValueHead::ComputeLoss(input, td_error, d_outputs);
    result.loss +=
        AddCqlPenalty({input.outputs, input.action, input.weight, input.mask}, alpha_, d_outputs);
    return result;
  }

 private:
  const double alpha_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CQL_CQL_HEAD_H_
