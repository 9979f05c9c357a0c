// Evaluates a policy on labelled data by a metric, for supervised training and imitation.
//
// The policy computes outputs for every batch, the metric compares them with the labels, and the
// result is the mean over all rows. A result that is at least as good as the best so far saves
// "ckpt_best"; the first one always does. Training may stop when the result is at least as good as
// the stop value and train_iter > 0. A value that is NaN is an error, and so is a stop value that
// the metric does not have.
//
// Metrics of each evaluation: data_length, evaluate_time, avg_time_per_data and those of the
// metric, as "<name>_iter/<metric>" and "<name>_step/<metric>", and a line in the log.
//
// Ownership: policy, data and metric must outlive it.   Threads: thread-compatible.
// Errors:    errors name the evaluator; after an error nothing is changed.
//
// Example:
//   const ActionAccuracy accuracy;
//   MetricSerialEvaluator::Options options;
//   options.stop_value = {{"accuracy", 0.95}};
//   DING_ASSIGN_OR_RETURN(auto evaluator, MetricSerialEvaluator::Create(
//                             options, &data, &accuracy, policy->eval_mode(), deps));
//   DING_ASSIGN_OR_RETURN(const MetricEvalResult result, evaluator->Eval({}));
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_METRIC_SERIAL_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_METRIC_SERIAL_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class MetricSerialEvaluator : public IMetricEvaluator {
 public:
  struct Options {
    int64_t eval_freq = 50;  // train iterations between two evaluations, at least 1
    // The values at which training stops; empty: it never stops.
    NamedValues stop_value;
    // Problems that the caller found. Create() reports them with its own.
    std::vector<std::string> problems;
  };

  //   kInvalidArgument  lists all problems: options, null data, metric or policy, no batches
  static absl::StatusOr<std::unique_ptr<MetricSerialEvaluator>> Create(Options options,
                                                                       IEvalData* data,
                                                                       const IMetric* metric,
                                                                       EvalMode* policy,
                                                                       ComponentDeps deps);

  absl::Status ResetData(IEvalData* data, const IMetric* metric) override;
  absl::Status ResetPolicy(EvalMode* policy) override;
  absl::Status Reset(EvalMode* policy, IEvalData* data, const IMetric* metric) override;

  bool ShouldEval(int64_t train_iter) override { return schedule_.ShouldEval(train_iter); }
  //   kInvalidArgument  a batch has no rows or another number of labels; the metric does not have a
  //                     stop value
  //   kInternal         a value is NaN
  //   other codes       data, policy or metric failed
  absl::StatusOr<MetricEvalResult> Eval(const EvalOptions& options) override;
  absl::Status Close() override { return FlushSink(deps_.metrics.get()); }
  std::optional<MetricEvalResult> last() const override { return last_; }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  MetricSerialEvaluator(Options options, ComponentDeps deps);

  struct Totals {
    std::vector<NamedValues> values;  // the values of each batch
    std::vector<int64_t> rows;
  };
  absl::StatusOr<Totals> Measure(const EvalOptions& options);
  absl::Status MeasureBatch(int64_t index, const EvalOptions& options, Totals* totals);
  absl::StatusOr<bool> IsAsGood(const NamedValues& a, const NamedValues& b) const;
  void Log(const EvalOptions& options, const Totals& totals, double seconds,
           const NamedValues& result);
  absl::Status NoteBest(const EvalOptions& options, const NamedValues& result);

  const Options options_;
  const ComponentDeps deps_;
  IEvalData* data_ = nullptr;
  const IMetric* metric_ = nullptr;
  EvalMode* policy_ = nullptr;
  EvalSchedule schedule_;
  std::optional<NamedValues> best_;
  std::optional<MetricEvalResult> last_;
  std::vector<int> row_ids_;  // passed to the policy as env ids
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_METRIC_SERIAL_EVALUATOR_H_
