// The interfaces that a supervised run uses: an evaluator on labelled data (IMetricEvaluator), the
// data (IEvalData) and the metric (IMetric). MetricSerialEvaluator (metric_serial_evaluator.h) is
// the default evaluator. Register one of your own in MetricEvaluatorRegistry()
// (collector/serial_registry.h).
//
// Ownership: policy, data and metric must outlive it.   Threads: thread-compatible.
// Errors:    errors name the evaluator. A run turns an exception of a function that returns a
//            Status into an error; the other functions must not throw.
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_METRIC_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_METRIC_EVALUATOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Compares outputs of a policy with labels, for instance by accuracy.
//
// A metric of your own is registered by name, and a config names it
// (policy.eval.metric_evaluator.metric):
//   DING_REGISTER(MetricRegistry(), "top_two", std::make_shared<const TopTwo>(), "share of ...");
// MetricRegistry() is in collector/serial_registry.h.
//
// Threads: thread-safe; metrics have no state.
class IMetric {
 public:
  virtual ~IMetric() = default;

  // Measures one batch: compares row i of `output`, the policy's output, with row i of `label`.
  virtual absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                           const ColumnsView& label) const = 0;
  // Combines the values of all batches; batch i has rows[i] rows. By default it returns means over
  // the rows, so that a shorter last batch has less weight.
  virtual NamedValues ReduceMean(absl::Span<const NamedValues> values,
                                 absl::Span<const int64_t> rows) const;
  // Whether `a` is as good as `b` or better.
  virtual bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const = 0;
};

// "accuracy": the share, from 0 to 1, of rows whose action (the first field of the output) equals
// the first field of the label in all elements.
class ActionAccuracy : public IMetric {
 public:
  // kInvalidArgument if the two fields differ in type or shape.
  absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                   const ColumnsView& label) const override;
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override;
};

// "action_mse": the mean squared difference, in the units of the env, between the elements of the
// action (the first field of the output, float32) and of the first field of the label. Less is
// better.
class ActionSquaredError : public IMetric {
 public:
  // kInvalidArgument if the two fields differ in type or shape, or are not float32.
  absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                   const ColumnsView& label) const override;
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override;
};

struct LabelledBatch {
  Batch input;  // the observations
  Batch label;  // the labels, with as many rows
};

// Labelled data to evaluate a policy on. Batches are requested by number, so that they can be read
// from files when needed.
class IEvalData {
 public:
  virtual ~IEvalData() = default;

  // The number of batches.
  virtual int64_t size() const = 0;
  // Returns batch `index`; it is the same each time. kOutOfRange unless it is 0 to size() - 1.
  virtual absl::StatusOr<LabelledBatch> Get(int64_t index) = 0;
};

// Batches in memory.
class EvalDataInMemory : public IEvalData {
 public:
  explicit EvalDataInMemory(std::vector<LabelledBatch> batches) : batches_(std::move(batches)) {}

  int64_t size() const override { return static_cast<int64_t>(batches_.size()); }
  absl::StatusOr<LabelledBatch> Get(int64_t index) override {
    if (index >= 0 && index < size()) return batches_[static_cast<size_t>(index)];
    return absl::OutOfRangeError(absl::StrCat("there is no batch ", index, ", only ", size()));
  }

 private:
  const std::vector<LabelledBatch> batches_;
};

struct MetricEvalResult {
  bool stop = false;
  NamedValues metric;
};

class IMetricEvaluator {
 public:
  virtual ~IMetricEvaluator() = default;

  // Uses these data and this metric from now on. The best and the last result stay.
  //   kInvalidArgument  null data or metric, or no batches
  virtual absl::Status ResetData(IEvalData* data, const IMetric* metric) = 0;
  // Uses `policy` from now on; null: keeps the current one and drops its recurrent state.
  virtual absl::Status ResetPolicy(EvalMode* policy) = 0;
  // Does both, and drops the best and the last result and the time of the last evaluation. Null
  // `data` or `metric` keep the current ones.
  virtual absl::Status Reset(EvalMode* policy, IEvalData* data, const IMetric* metric) = 0;

  // Whether an evaluation is due at this train iteration, as in ISerialEvaluator.
  virtual bool ShouldEval(int64_t train_iter) = 0;
  // Evaluates, and saves "ckpt_best" by options.save_checkpoint if the result is the best so far.
  // n_episode and force_render of the options have no meaning here.
  virtual absl::StatusOr<MetricEvalResult> Eval(const EvalOptions& options) = 0;
  // As in ISerialEvaluator.
  virtual absl::Status Close() { return absl::OkStatus(); }
  // Returns the result of the last evaluation, also of a loaded state; nullopt if there was none.
  virtual std::optional<MetricEvalResult> last() const = 0;

  // Save and load the best and the last result.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_METRIC_EVALUATOR_H_
