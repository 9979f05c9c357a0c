// Serial collectors and evaluators by name; and the options that their factories read from the
// config.
#ifndef DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_
#define DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/evaluator/eval_core.h"
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
  // Whether parallel collectors collect what it collects, so that a parallel run takes a config
  // with it.
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

// The metrics by the name in the config (MetricEvaluatorConfig::metric). A metric has no state, so
// a run may use the registered object.
Registry<std::shared_ptr<const IMetric>>& MetricRegistry();

using MetricEvaluatorCreator = std::function<absl::StatusOr<std::unique_ptr<IMetricEvaluator>>(
    const MetricEvaluatorConfig&, IEvalData*, const IMetric*, EvalMode*, const ComponentDeps&)>;
Registry<MetricEvaluatorCreator>& MetricEvaluatorRegistry();

// kNotFound lists the linked names; kInvalidArgument lists all problems of the config. Env manager
// and policy must not be null and must outlive the created object.
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

// For factories of serial collectors and evaluators: they read the config into the options of the
// building blocks (collector/core/collect_core.h, collector/evaluator/eval_core.h). Fields of the
// config that a type has of its own are in its `params`.
//
// What is wrong is added to a list of problems, which Create() of the building blocks reports
// together with the others.
//
// Example, of a type "mine" with the message MyParams:
//   MyParams params;
//   CollectCore::Options options;
//   ReadSerialCollectorOptions(config, &options.common);
//   ReadParams(config, &params, &options.problems);
//   DING_ASSIGN_OR_RETURN(auto core, CollectCore::Create(options, env, PoliciesOf(policy), deps));

// Copies the fields that all types have; those that are not set keep their default.
void ReadSerialCollectorOptions(const SerialCollectorConfig& config,
                                SerialCollectorOptions* options);

void ReadSerialEvaluatorOptions(const SerialEvaluatorConfig& config,
                                SerialEvaluatorOptions* options);

// For a type whose Create() does not take problems of the config: returns kInvalidArgument if there
// are `problems` of the config, and then lists those of the options, too, so that a user mends them
// in one go. Without problems of the config it is OK: Create() checks the options. `where` is the
// name of the component.
absl::Status SerialProblemsToStatus(std::vector<std::string> problems,
                                    const std::vector<std::string>& option_problems,
                                    absl::string_view where);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_
