#include "ding_worker/collector/evaluator/metric_serial_evaluator.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

absl::Status CheckData(const IEvalData* data, const IMetric* metric) {
  std::vector<std::string> problems;
  if (data == nullptr) {
    problems.push_back("no data");
  } else if (data->size() < 1) {
    problems.push_back("the data have no batches, expected at least 1");
  }
  if (metric == nullptr) problems.push_back("no metric");
  return ProblemsToStatus(problems);
}

// Saves values as "<which>_names" and "<which>_values".
absl::Status SaveValues(absl::string_view which, const NamedValues& saved, StateWriter* writer) {
  std::vector<std::string> names;
  std::vector<double> values;
  for (const auto& [name, value] : saved) {
    names.push_back(name);
    values.push_back(value);
  }
  DING_RETURN_IF_ERROR(
      writer->WriteString(absl::StrCat(which, "_names"), absl::StrJoin(names, "\n")));
  return writer->WriteSpan<double>(absl::StrCat(which, "_values"), values);
}

absl::StatusOr<NamedValues> LoadValues(absl::string_view which, StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::string joined,
                        reader->ReadString(absl::StrCat(which, "_names")));
  const std::vector<std::string> names = absl::StrSplit(joined, '\n', absl::SkipEmpty());
  std::vector<double> values(names.size());
  DING_RETURN_IF_ERROR(
      reader->ReadSpan<double>(absl::StrCat(which, "_values"), absl::MakeSpan(values)));
  NamedValues loaded;
  for (size_t i = 0; i < names.size(); ++i) loaded.Set(names[i], values[i]);
  return loaded;
}

// Calls a function of the metric, which returns a StatusOr.
template <typename Call>
std::invoke_result_t<Call&> CallMetric(Call&& call) {
  std::invoke_result_t<Call&> result = CallUser("it", call);
  if (result.ok()) return result;
  return Annotate(result.status(), "metric");
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricSerialEvaluator>> MetricSerialEvaluator::Create(
    Options options, IEvalData* data, const IMetric* metric, EvalMode* policy, ComponentDeps deps) {
  if (deps.name.empty()) deps.name = "evaluator";
  std::vector<std::string> problems = options.problems;
  if (options.eval_freq < 1) {
    problems.push_back(absl::StrCat("eval_freq is ", options.eval_freq, ", expected at least 1"));
  }
  for (const auto& [name, value] : options.stop_value) {
    if (std::isnan(value)) {
      problems.push_back(absl::StrCat("stop_value of '", name, "' is NaN, expected a number"));
    }
  }
  if (const absl::Status status = CheckData(data, metric); !status.ok()) {
    problems.emplace_back(status.message());
  }
  if (policy == nullptr) problems.push_back("no policy");
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, deps.name));
  auto evaluator = absl::WrapUnique(new MetricSerialEvaluator(std::move(options), std::move(deps)));
  evaluator->data_ = data;
  evaluator->metric_ = metric;
  DING_RETURN_IF_ERROR(evaluator->ResetPolicy(policy));
  return evaluator;
}

MetricSerialEvaluator::MetricSerialEvaluator(Options options, ComponentDeps deps)
    : options_(std::move(options)), deps_(std::move(deps)), schedule_(options_.eval_freq) {}

absl::Status MetricSerialEvaluator::ResetData(IEvalData* data, const IMetric* metric) {
  DING_RETURN_IF_ERROR(Annotate(CheckData(data, metric), deps_.name));
  data_ = data;
  metric_ = metric;
  return absl::OkStatus();
}

absl::Status MetricSerialEvaluator::ResetPolicy(EvalMode* policy) {
  EvalMode* const used = policy != nullptr ? policy : policy_;
  DING_RETURN_IF_ERROR(Annotate(CallPolicy([&] { return used->Reset({}); }), deps_.name));
  policy_ = used;
  return absl::OkStatus();
}

absl::Status MetricSerialEvaluator::Reset(EvalMode* policy, IEvalData* data,
                                          const IMetric* metric) {
  IEvalData* const used_data = data != nullptr ? data : data_;
  const IMetric* const used_metric = metric != nullptr ? metric : metric_;
  DING_RETURN_IF_ERROR(Annotate(CheckData(used_data, used_metric), deps_.name));
  DING_RETURN_IF_ERROR(ResetPolicy(policy));
  data_ = used_data;
  metric_ = used_metric;
  best_.reset();
  last_.reset();
  schedule_ = EvalSchedule(options_.eval_freq);
  return absl::OkStatus();
}

absl::StatusOr<MetricEvalResult> MetricSerialEvaluator::Eval(const EvalOptions& options) {
  const Timer timer(deps_.clock);
  DING_RETURN_IF_ERROR(ResetPolicy(nullptr));
  absl::StatusOr<Totals> totals = Measure(options);
  if (!totals.ok()) return Annotate(totals.status(), deps_.name);
  MetricEvalResult result;
  absl::StatusOr<NamedValues> mean = CallMetric([&]() -> absl::StatusOr<NamedValues> {
    return metric_->ReduceMean(totals->values, totals->rows);
  });
  if (!mean.ok()) return Annotate(mean.status(), deps_.name);
  result.metric = *std::move(mean);
  for (const auto& [name, value] : result.metric) {
    if (!std::isnan(value)) continue;
    return absl::InternalError(absl::StrCat(deps_.name, ": metric '", name, "' is NaN"));
  }
  for (const auto& [name, value] : options_.stop_value) {
    if (result.metric.Get(name).has_value()) continue;
    return absl::InvalidArgumentError(absl::StrCat(deps_.name, ": there is a stop value of '", name,
                                                   "', but the metric gives ",
                                                   MetricsLine(result.metric)));
  }
  if (!options_.stop_value.empty() && options.train_iter > 0) {
    DING_ASSIGN_OR_RETURN(result.stop, IsAsGood(result.metric, options_.stop_value));
  }
  Log(options, *totals, timer.Seconds(), result.metric);
  DING_RETURN_IF_ERROR(NoteBest(options, result.metric));
  last_ = result;
  return result;
}

absl::StatusOr<MetricSerialEvaluator::Totals> MetricSerialEvaluator::Measure(
    const EvalOptions& options) {
  Totals totals;
  const int64_t batches = data_->size();
  if (batches < 1)
    return absl::FailedPreconditionError("the data have no batches left, expected at least 1");
  for (int64_t i = 0; i < batches; ++i) {
    DING_RETURN_IF_ERROR(Annotate(MeasureBatch(i, options, &totals), absl::StrCat("batch ", i)));
  }
  return totals;
}

absl::Status MetricSerialEvaluator::MeasureBatch(int64_t index, const EvalOptions& options,
                                                 Totals* totals) {
  DING_ASSIGN_OR_RETURN(const LabelledBatch batch, data_->Get(index));
  const int64_t rows = batch.input.rows();
  if (rows < 1 || batch.label.rows() != rows) {
    return absl::InvalidArgumentError(absl::StrCat(rows, " rows and ", batch.label.rows(),
                                                   " labels, expected a label for each row, and "
                                                   "at least 1"));
  }
  while (static_cast<int64_t>(row_ids_.size()) < rows) {
    row_ids_.push_back(static_cast<int>(row_ids_.size()));
  }
  DING_ASSIGN_OR_RETURN(const BatchBuilder output,
                        BatchBuilder::Create(policy_->output_spec(), rows));
  const auto ids = absl::MakeConstSpan(row_ids_).first(static_cast<size_t>(rows));
  DING_RETURN_IF_ERROR(CallPolicy([&] {
    return ForwardPolicy(policy_, batch.input.view(), ids, options.policy_settings,
                         options.policy_tensors, output.view());
  }));
  absl::StatusOr<NamedValues> values =
      CallMetric([&] { return metric_->Eval(output.view(), batch.label.view()); });
  if (!values.ok()) return values.status();
  totals->values.push_back(*std::move(values));
  totals->rows.push_back(rows);
  return absl::OkStatus();
}

absl::StatusOr<bool> MetricSerialEvaluator::IsAsGood(const NamedValues& a,
                                                     const NamedValues& b) const {
  const absl::StatusOr<bool> as_good =
      CallMetric([&]() -> absl::StatusOr<bool> { return metric_->GreaterOrEqual(a, b); });
  if (as_good.ok()) return as_good;
  return Annotate(as_good.status(), deps_.name);
}

void MetricSerialEvaluator::Log(const EvalOptions& options, const Totals& totals, double seconds,
                                const NamedValues& result) {
  int64_t rows = 0;
  for (const int64_t of_batch : totals.rows) rows += of_batch;
  NamedValues metrics = {{"data_length", static_cast<double>(rows)},
                         {"evaluate_time", seconds},
                         {"avg_time_per_data", seconds / static_cast<double>(rows)}};
  for (const auto& [name, value] : result) {
    // A value of the metric never replaces one of ours.
    metrics.Set(metrics.Get(name).has_value() ? absl::StrCat("metric/", name) : name, value);
  }
  DING_LOG_EVENT(INFO, {EventKind::kEvaluation, deps_.name, options.envstep, options.train_iter})
      << deps_.name << " at iteration " << options.train_iter << " (iteration_"
      << options.train_iter << "): " << MetricsLine(metrics);
  WriteMetrics(metrics, deps_.name, options.train_iter, options.envstep, "", deps_.metrics.get());
}

absl::Status MetricSerialEvaluator::NoteBest(const EvalOptions& options,
                                             const NamedValues& result) {
  if (best_.has_value()) {
    DING_ASSIGN_OR_RETURN(const bool as_good, IsAsGood(result, *best_));
    if (!as_good) return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(SaveBest(options.save_checkpoint, deps_.name));
  best_ = result;
  return absl::OkStatus();
}

absl::Status MetricSerialEvaluator::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("last_eval_iter", schedule_.last_eval_iter()));
  DING_RETURN_IF_ERROR(writer->WriteInt("has_best", best_.has_value() ? 1 : 0));
  DING_RETURN_IF_ERROR(SaveValues("best", best_.value_or(NamedValues()), writer));
  const MetricEvalResult last = last_.value_or(MetricEvalResult());
  DING_RETURN_IF_ERROR(writer->WriteInt("has_last", last_.has_value() ? 1 : 0));
  DING_RETURN_IF_ERROR(writer->WriteInt("last_stop", last.stop ? 1 : 0));
  return SaveValues("last", last.metric, writer);
}

absl::Status MetricSerialEvaluator::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t last_eval_iter,
                        reader->ReadCount("last_eval_iter", /*least=*/-1));
  DING_ASSIGN_OR_RETURN(const int64_t has_best, reader->ReadInt("has_best"));
  DING_ASSIGN_OR_RETURN(NamedValues best, LoadValues("best", reader));
  DING_ASSIGN_OR_RETURN(const int64_t has_last, reader->ReadInt("has_last"));
  MetricEvalResult last;
  DING_ASSIGN_OR_RETURN(const int64_t last_stop, reader->ReadInt("last_stop"));
  last.stop = last_stop != 0;
  DING_ASSIGN_OR_RETURN(last.metric, LoadValues("last", reader));
  best_.reset();
  if (has_best != 0) best_ = std::move(best);
  last_.reset();
  if (has_last != 0) last_ = std::move(last);
  schedule_.set_last_eval_iter(last_eval_iter);
  return absl::OkStatus();
}

}  // namespace ding
