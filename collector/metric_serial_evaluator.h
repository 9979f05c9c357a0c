// Judges a policy on labelled data by a metric: supervised training and imitation.
//
// Every batch goes through the policy; the metric compares what it wrote with the labels, and the
// mean over all rows is the result. A result that the metric calls as good as the best so far, or
// better, saves "ckpt_best"; the first one always does. Training may stop when it is as good as the
// stop value and train_iter > 0. A value that is NaN is an error that names it, and so is a stop value
// of something that the metric does not measure.
//
// Metrics of each evaluation: data_length, evaluate_time, avg_time_per_data and those of the
// metric, as "<name>_iter/<metric>" and "<name>_step/<metric>", and a line in the log.
//
// Ownership: policy, data and metric must outlive it.   Threads: thread-compatible.
// Errors:    name the evaluator; what fails changes nothing.
//
// Example:
//   const ActionAccuracy accuracy;
//   MetricSerialEvaluator::Options options;
//   options.stop_value = {{"accuracy", 0.95}};
//   DING_ASSIGN_OR_RETURN(auto evaluator, MetricSerialEvaluator::Create(
//                             options, &data, &accuracy, policy->eval_mode(), deps));
//   DING_ASSIGN_OR_RETURN(const MetricEvalResult result, evaluator->Eval({}));
#ifndef DING_WORKER_COLLECTOR_METRIC_SERIAL_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_METRIC_SERIAL_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/eval_data.h"
#include "ding_worker/collector/eval_schedule.h"
#include "ding_worker/collector/metric.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

struct MetricEvalResult {
  bool stop = false;
  NamedValues metric;
};

class MetricSerialEvaluator {
 public:
  struct Options {
    int64_t eval_freq = 50;  // train iterations between two evaluations, at least 1
    // What the metric must reach for training to stop; empty: it never does.
    NamedValues stop_value;

    // What is wrong with them; empty if nothing is.
    std::vector<std::string> Problems() const;
  };

  //   kInvalidArgument  options (all problems at once); data, metric or policy null; no batches
  static absl::StatusOr<std::unique_ptr<MetricSerialEvaluator>> Create(Options options,
                                                                       IEvalData* data,
                                                                       const IMetric* metric,
                                                                       EvalMode* policy,
                                                                       ComponentDeps deps);

  // Takes these from now on.
  absl::Status ResetData(IEvalData* data, const IMetric* metric);
  // Takes `policy` from now on; null: keeps the one it has, which forgets its recurrent state.
  absl::Status ResetPolicy(EvalMode* policy);

  // As of ISerialEvaluator.
  bool ShouldEval(int64_t train_iter) { return schedule_.ShouldEval(train_iter); }
  // Of the options, n_episode and force_render mean nothing here.
  //   kInvalidArgument  a batch without rows, or with another number of labels; a stop value that
  //                     the metric has not
  //   kInternal         a value is NaN;   other codes: data, policy or metric failed
  absl::StatusOr<MetricEvalResult> Eval(const EvalOptions& options);

  // Of the last evaluation, also one before the state was loaded; none if there was none.
  const std::optional<MetricEvalResult>& last() const { return last_; }

  // Best and last result.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  MetricSerialEvaluator(Options options, ComponentDeps deps);

  struct Totals {
    std::vector<NamedValues> values;  // of each batch
    std::vector<int64_t> rows;
  };
  absl::StatusOr<Totals> Measure(const NamedValues& settings);
  absl::Status MeasureBatch(int64_t index, const NamedValues& settings, Totals* totals);
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
  std::vector<int> row_ids_;  // what the policy is told for env ids
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_METRIC_SERIAL_EVALUATOR_H_
