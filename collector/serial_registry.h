// Serial collectors and evaluators by name; and the options that their factories read from the
// config.
#ifndef DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_
#define DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/evaluator/eval_core.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

// A type of collector (base/module.h): of envs for one player, or of games.
template <typename Collector, typename Policies>
struct CollectorDescriptor : Module<std::unique_ptr<Collector>, SerialCollectorConfig, EnvManager*,
                                    Policies, const ComponentDeps&> {
  bool by_episode = false;  // whether its target is a number of episodes; else of samples
  // Whether parallel collectors collect the same data, so that a parallel run accepts a config with
  // this type.
  bool in_parallel = false;
};
using SerialCollectorDescriptor = CollectorDescriptor<ISerialCollector, CollectMode*>;
inline ModuleRegistry<SerialCollectorDescriptor>& SerialCollectorRegistry() {
  static auto* const registry = new ModuleRegistry<SerialCollectorDescriptor>("serial collector");
  return *registry;
}

using BattleCollectorDescriptor =
    CollectorDescriptor<IBattleCollector, const std::vector<CollectMode*>&>;
inline ModuleRegistry<BattleCollectorDescriptor>& BattleCollectorRegistry() {
  static auto* const registry = new ModuleRegistry<BattleCollectorDescriptor>("battle collector");
  return *registry;
}

using SerialEvaluatorCreator = Module<std::unique_ptr<ISerialEvaluator>, SerialEvaluatorConfig,
                                      EnvManager*, EvalMode*, const ComponentDeps&>;
inline ModuleRegistry<SerialEvaluatorCreator>& SerialEvaluatorRegistry() {
  static auto* const registry = new ModuleRegistry<SerialEvaluatorCreator>("serial evaluator");
  return *registry;
}

using BattleEvaluatorCreator =
    Module<std::unique_ptr<IBattleEvaluator>, SerialEvaluatorConfig, EnvManager*,
           const std::vector<EvalMode*>&, const ComponentDeps&>;
inline ModuleRegistry<BattleEvaluatorCreator>& BattleEvaluatorRegistry() {
  static auto* const registry = new ModuleRegistry<BattleEvaluatorCreator>("battle evaluator");
  return *registry;
}

// The metrics by the name in the config (MetricEvaluatorConfig::metric). A metric has no state, so
// a run may use the registered object.
inline Registry<std::shared_ptr<const IMetric>>& MetricRegistry() {
  static auto* const registry = new Registry<std::shared_ptr<const IMetric>>("metric");
  return *registry;
}

using MetricEvaluatorCreator = Module<std::unique_ptr<IMetricEvaluator>, MetricEvaluatorConfig,
                                      IEvalData*, const IMetric*, EvalMode*, const ComponentDeps&>;
inline ModuleRegistry<MetricEvaluatorCreator>& MetricEvaluatorRegistry() {
  static auto* const registry = new ModuleRegistry<MetricEvaluatorCreator>("metric evaluator");
  return *registry;
}

// Make the object that the config names, or find its type. Errors are those of
// ModuleRegistry::Create(); kInvalidArgument lists all problems of the config. Env manager and
// policy must not be null, and must outlive the object.
inline absl::StatusOr<std::unique_ptr<ISerialCollector>> create_serial_collector(
    const SerialCollectorConfig& config, EnvManager* env, CollectMode* policy,
    const ComponentDeps& deps) {
  return SerialCollectorRegistry().Create(config, env, policy, deps);
}
inline absl::StatusOr<SerialCollectorDescriptor> get_serial_collector_cls(
    const SerialCollectorConfig& config) {
  return SerialCollectorRegistry().Find(config.type());
}
inline absl::StatusOr<std::unique_ptr<IBattleCollector>> create_battle_collector(
    const SerialCollectorConfig& config, EnvManager* env, const std::vector<CollectMode*>& policies,
    const ComponentDeps& deps) {
  return BattleCollectorRegistry().Create(config, env, policies, deps);
}
inline absl::StatusOr<BattleCollectorDescriptor> get_battle_collector_cls(
    const SerialCollectorConfig& config) {
  return BattleCollectorRegistry().Find(config.type());
}
inline absl::StatusOr<std::unique_ptr<ISerialEvaluator>> create_serial_evaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, EvalMode* policy,
    const ComponentDeps& deps) {
  return SerialEvaluatorRegistry().Create(config, env, policy, deps);
}
inline absl::StatusOr<std::unique_ptr<IBattleEvaluator>> create_battle_evaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, const std::vector<EvalMode*>& policies,
    const ComponentDeps& deps) {
  return BattleEvaluatorRegistry().Create(config, env, policies, deps);
}
inline absl::StatusOr<std::unique_ptr<IMetricEvaluator>> create_metric_evaluator(
    const MetricEvaluatorConfig& config, IEvalData* data, const IMetric* metric, EvalMode* policy,
    const ComponentDeps& deps) {
  return MetricEvaluatorRegistry().Create(config, data, metric, policy, deps);
}

// For makers of serial collectors and evaluators: they read the config into the options of the
// building blocks (collector/core/collect_core.h, collector/evaluator/eval_core.h). Fields of the
// config that a type has of its own are in its `params`.
//
// Problems of the config are added to the `problems` of the options, and Create() reports them
// together with the others.
//
// Example, of a type "mine" with the message MyParams:
//   CollectCore::Options options;
//   ReadSerialCollectorOptions(config, &options.common);
//   if (params.rows() < 1) {
//     options.common.problems.push_back("rows is below 1, expected at least 1");
//   }
//   DING_ASSIGN_OR_RETURN(auto core, CollectCore::Create(options, env, PoliciesOf(policy), deps));

// Copies the fields that all types have; those that are not set keep their default.
void ReadSerialCollectorOptions(const SerialCollectorConfig& config,
                                SerialCollectorOptions* options);

void ReadSerialEvaluatorOptions(const SerialEvaluatorConfig& config,
                                SerialEvaluatorOptions* options);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_REGISTRY_H_
