// Measures how good a policy's outputs are against labels: accuracy and the like.
//
// Threads: thread-safe: measuring changes nothing.
#ifndef DING_WORKER_COLLECTOR_METRIC_H_
#define DING_WORKER_COLLECTOR_METRIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"

namespace ding {

class IMetric {
 public:
  virtual ~IMetric() = default;

  // Of one batch: row i of `output`, as the policy wrote it, against row i of `label`.
  virtual absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                           const ColumnsView& label) const = 0;
  // Of all batches, of so many rows each. The default is the mean of each value over the rows, so
  // that a short last batch counts for what it is.
  virtual NamedValues ReduceMean(absl::Span<const NamedValues> values,
                                 absl::Span<const int64_t> rows) const;
  // Whether `a` is as good as `b` or better.
  virtual bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const = 0;
};

// "accuracy": the share, from 0 to 1, of rows whose action (the first field of the output) is that
// of the label's first field, in all of its elements.
class ActionAccuracy : public IMetric {
 public:
  // kInvalidArgument if the two fields differ in type or shape.
  absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                   const ColumnsView& label) const override;
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override;
};

// "action_mse": the mean squared difference, in the units of the env, of the action's elements (the
// first field of the output, float32) from those of the label's first field. Less is better.
class ActionSquaredError : public IMetric {
 public:
  // kInvalidArgument if the two fields differ in type or shape, or are not float32.
  absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                   const ColumnsView& label) const override;
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_METRIC_H_
