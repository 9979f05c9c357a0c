// Registers MetricSerialEvaluator as "metric", and the metrics "accuracy" and "action_mse".
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/evaluator/eval_data.h"
#include "ding_worker/collector/evaluator/metric.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/evaluator/metric_serial_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_config.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<IMetricEvaluator>> CreateMetricSerialEvaluator(
    const MetricEvaluatorConfig& config, IEvalData* data, const IMetric* metric, EvalMode* policy,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  ReadParams(config, /*params=*/nullptr, &problems);
  MetricSerialEvaluator::Options options;
  options.eval_freq = config.eval_freq();
  // A sorted map, because the order of a proto map depends on hashes.
  const std::map<std::string, double> stop_value(config.stop_value().begin(),
                                                 config.stop_value().end());
  for (const auto& [name, value] : stop_value) options.stop_value.Set(name, value);
  DING_RETURN_IF_ERROR(SerialProblemsToStatus(std::move(problems), options.Problems(), deps.name));
  return MetricSerialEvaluator::Create(std::move(options), data, metric, policy, deps);
}

DING_REGISTER(MetricEvaluatorRegistry(), "metric", CreateMetricSerialEvaluator,
              "mean of a metric, such as accuracy, over labelled data");
DING_REGISTER(MetricRegistry(), "accuracy", std::make_shared<const ActionAccuracy>(),
              "share of the steps whose action is the recorded one; categories");
DING_REGISTER(MetricRegistry(), "action_mse", std::make_shared<const ActionSquaredError>(),
              "mean squared distance of the action from the recorded one; boxes");

}  // namespace
}  // namespace ding
