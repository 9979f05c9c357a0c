// The interface of an evaluator on labelled data: what a supervised run knows of it. MetricSerialEvaluator
// (metric_serial_evaluator.h) is the default; one of your own is registered in MetricEvaluatorRegistry()
// (collector/serial_registry.h).
//
// Ownership: policy, data and metric must outlive it.   Threads: thread-compatible.
// Errors:    name the evaluator. A run turns an exception of a function that returns a Status into an error;
//            the other functions must not throw.
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_METRIC_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_METRIC_EVALUATOR_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/evaluator/eval_data.h"
#include "ding_worker/collector/evaluator/metric.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"

namespace ding {

struct MetricEvalResult {
  bool stop = false;
  NamedValues metric;
};

class IMetricEvaluator {
 public:
  virtual ~IMetricEvaluator() = default;

  // Uses these from now on. The best and the last result stay.
  //   kInvalidArgument  null data or metric, or no batches
  virtual absl::Status ResetData(IEvalData* data, const IMetric* metric) = 0;
  // Uses `policy` from now on; null: keeps the current one and drops its recurrent state.
  virtual absl::Status ResetPolicy(EvalMode* policy) = 0;
  // Does both, and drops the best and the last result and the time of the last evaluation. Null `data` or
  // `metric` keep the current ones.
  virtual absl::Status Reset(EvalMode* policy, IEvalData* data, const IMetric* metric) = 0;

  // Whether an evaluation is due at this train iteration, as in ISerialEvaluator.
  virtual bool ShouldEval(int64_t train_iter) = 0;
  // Evaluates, and saves "ckpt_best" by options.save_checkpoint if the result is the best so far. n_episode
  // and force_render of the options have no meaning here.
  virtual absl::StatusOr<MetricEvalResult> Eval(const EvalOptions& options) = 0;
  // Returns the result of the last evaluation, also of a loaded state; nullopt if there was none.
  virtual std::optional<MetricEvalResult> last() const = 0;

  // Save and load the best and the last result.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_METRIC_EVALUATOR_H_
