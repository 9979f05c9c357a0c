// Compares outputs of a policy with labels, for instance by accuracy.
//
// A metric of your own is registered by name, and a config names it (policy.eval.metric_evaluator.metric):
//   DING_REGISTER(MetricRegistry(), "top_two", std::make_shared<const TopTwo>(), "share of ...");
// MetricRegistry() is that of collector/serial_registry.h.
//
// Threads: thread-safe; metrics have no state.
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_METRIC_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_METRIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"

namespace ding {

class IMetric {
 public:
  virtual ~IMetric() = default;

  // Measures one batch: compares row i of `output`, the policy's output, with row i of `label`.
  virtual absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                           const ColumnsView& label) const = 0;
  // Combines the values of all batches, which have `rows` rows. By default it returns means over the
  // rows, so that a shorter last batch has less weight.
  virtual NamedValues ReduceMean(absl::Span<const NamedValues> values,
                                 absl::Span<const int64_t> rows) const;
  // Whether `a` is as good as `b` or better.
  virtual bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const = 0;
};

// "accuracy": the share, from 0 to 1, of rows whose action (the first field of the output) equals the first
// field of the label in all elements.
class ActionAccuracy : public IMetric {
 public:
  // kInvalidArgument if the two fields differ in type or shape.
  absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                   const ColumnsView& label) const override;
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override;
};

// "action_mse": the mean squared difference, in the units of the env, between the elements of the action
// (the first field of the output, float32) and of the first field of the label. Less is better.
class ActionSquaredError : public IMetric {
 public:
  // kInvalidArgument if the two fields differ in type or shape, or are not float32.
  absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                   const ColumnsView& label) const override;
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_METRIC_H_
