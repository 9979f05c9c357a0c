// Finds serial collectors and evaluators by the name in their config.
#ifndef DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_
#define DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/evaluator/metric.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

// A type of collector, returned by get_serial_collector_cls().
struct SerialCollectorDescriptor {
  std::string name;
  SerialCollectorConfig default_config;
  bool by_episode = false;  // whether its target is a number of episodes; else of rows
  // Whether parallel collectors collect what it collects, so that a parallel run takes a config with it.
  bool in_parallel = false;
  std::function<absl::StatusOr<std::unique_ptr<ISerialCollector>>(
      const SerialCollectorConfig&, EnvManager*, CollectMode*, const ComponentDeps&)>
      create;
};
Registry<SerialCollectorDescriptor>& SerialCollectorRegistry();

// A type of collector for games.
struct BattleCollectorDescriptor {
  std::string name;
  SerialCollectorConfig default_config;
  bool by_episode = false;
  bool in_parallel = false;
  std::function<absl::StatusOr<std::unique_ptr<IBattleCollector>>(
      const SerialCollectorConfig&, EnvManager*, const std::vector<CollectMode*>&,
      const ComponentDeps&)>
      create;
};
Registry<BattleCollectorDescriptor>& BattleCollectorRegistry();

using SerialEvaluatorCreator = std::function<absl::StatusOr<std::unique_ptr<ISerialEvaluator>>(
    const SerialEvaluatorConfig&, EnvManager*, EvalMode*, const ComponentDeps&)>;
Registry<SerialEvaluatorCreator>& SerialEvaluatorRegistry();

using BattleEvaluatorCreator = std::function<absl::StatusOr<std::unique_ptr<IBattleEvaluator>>(
    const SerialEvaluatorConfig&, EnvManager*, const std::vector<EvalMode*>&,
    const ComponentDeps&)>;
Registry<BattleEvaluatorCreator>& BattleEvaluatorRegistry();

// The metrics by the name in the config (MetricEvaluatorConfig::metric). A metric has no state, so a run may use
// the registered object.
Registry<std::shared_ptr<const IMetric>>& MetricRegistry();

using MetricEvaluatorCreator = std::function<absl::StatusOr<std::unique_ptr<IMetricEvaluator>>(
    const MetricEvaluatorConfig&, IEvalData*, const IMetric*, EvalMode*, const ComponentDeps&)>;
Registry<MetricEvaluatorCreator>& MetricEvaluatorRegistry();

// kNotFound lists the linked names; kInvalidArgument lists all problems of the config. Env manager and
// policy must not be null and must outlive the created object.
absl::StatusOr<std::unique_ptr<ISerialCollector>> create_serial_collector(
    const SerialCollectorConfig& config, EnvManager* env, CollectMode* policy,
    const ComponentDeps& deps);
absl::StatusOr<SerialCollectorDescriptor> get_serial_collector_cls(
    const SerialCollectorConfig& config);
absl::StatusOr<std::unique_ptr<IBattleCollector>> create_battle_collector(
    const SerialCollectorConfig& config, EnvManager* env, const std::vector<CollectMode*>& policies,
    const ComponentDeps& deps);
absl::StatusOr<BattleCollectorDescriptor> get_battle_collector_cls(
    const SerialCollectorConfig& config);
absl::StatusOr<std::unique_ptr<ISerialEvaluator>> create_serial_evaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, EvalMode* policy,
    const ComponentDeps& deps);

absl::StatusOr<std::unique_ptr<IBattleEvaluator>> create_battle_evaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, const std::vector<EvalMode*>& policies,
    const ComponentDeps& deps);
absl::StatusOr<std::unique_ptr<IMetricEvaluator>> create_metric_evaluator(
    const MetricEvaluatorConfig& config, IEvalData* data, const IMetric* metric, EvalMode* policy,
    const ComponentDeps& deps);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_
