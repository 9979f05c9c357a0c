#include "ding_worker/collector/serial_registry.h"

#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<SerialCollectorDescriptor>& SerialCollectorRegistry() {
  static auto* const registry = new Registry<SerialCollectorDescriptor>("serial collector");
  return *registry;
}

Registry<BattleCollectorDescriptor>& BattleCollectorRegistry() {
  static auto* const registry = new Registry<BattleCollectorDescriptor>("battle collector");
  return *registry;
}

Registry<SerialEvaluatorCreator>& SerialEvaluatorRegistry() {
  static auto* const registry = new Registry<SerialEvaluatorCreator>("serial evaluator");
  return *registry;
}

Registry<BattleEvaluatorCreator>& BattleEvaluatorRegistry() {
  static auto* const registry = new Registry<BattleEvaluatorCreator>("battle evaluator");
  return *registry;
}

Registry<std::shared_ptr<const IMetric>>& MetricRegistry() {
  static auto* const registry = new Registry<std::shared_ptr<const IMetric>>("metric");
  return *registry;
}

Registry<MetricEvaluatorCreator>& MetricEvaluatorRegistry() {
  static auto* const registry = new Registry<MetricEvaluatorCreator>("metric evaluator");
  return *registry;
}

absl::StatusOr<SerialCollectorDescriptor> get_serial_collector_cls(
    const SerialCollectorConfig& config) {
  return SerialCollectorRegistry().Find(config.type());
}

absl::StatusOr<std::unique_ptr<ISerialCollector>> create_serial_collector(
    const SerialCollectorConfig& config, EnvManager* env, CollectMode* policy,
    const ComponentDeps& deps) {
  DING_ASSIGN_OR_RETURN(const SerialCollectorDescriptor descriptor,
                        get_serial_collector_cls(config));
  return CallFactory("serial collector", config.type(),
                     [&] { return descriptor.create(config, env, policy, deps); });
}

absl::StatusOr<BattleCollectorDescriptor> get_battle_collector_cls(
    const SerialCollectorConfig& config) {
  return BattleCollectorRegistry().Find(config.type());
}

absl::StatusOr<std::unique_ptr<IBattleCollector>> create_battle_collector(
    const SerialCollectorConfig& config, EnvManager* env, const std::vector<CollectMode*>& policies,
    const ComponentDeps& deps) {
  DING_ASSIGN_OR_RETURN(const BattleCollectorDescriptor descriptor,
                        get_battle_collector_cls(config));
  return CallFactory("battle collector", config.type(),
                     [&] { return descriptor.create(config, env, policies, deps); });
}

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> create_serial_evaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, EvalMode* policy,
    const ComponentDeps& deps) {
  DING_ASSIGN_OR_RETURN(const SerialEvaluatorCreator create,
                        SerialEvaluatorRegistry().Find(config.type()));
  return CallFactory("serial evaluator", config.type(),
                     [&] { return create(config, env, policy, deps); });
}

absl::StatusOr<std::unique_ptr<IBattleEvaluator>> create_battle_evaluator(
    const SerialEvaluatorConfig& config, EnvManager* env, const std::vector<EvalMode*>& policies,
    const ComponentDeps& deps) {
  DING_ASSIGN_OR_RETURN(const BattleEvaluatorCreator create,
                        BattleEvaluatorRegistry().Find(config.type()));
  return CallFactory("battle evaluator", config.type(),
                     [&] { return create(config, env, policies, deps); });
}

absl::StatusOr<std::unique_ptr<IMetricEvaluator>> create_metric_evaluator(
    const MetricEvaluatorConfig& config, IEvalData* data, const IMetric* metric, EvalMode* policy,
    const ComponentDeps& deps) {
  DING_ASSIGN_OR_RETURN(const MetricEvaluatorCreator create,
                        MetricEvaluatorRegistry().Find(config.type()));
  return CallFactory("metric evaluator", config.type(),
                     [&] { return create(config, data, metric, policy, deps); });
}

void ReadSerialCollectorOptions(const SerialCollectorConfig& config,
                                SerialCollectorOptions* options) {
  options->collect_print_freq = config.collect_print_freq();
  options->max_abnormal = config.max_abnormal();
}

void ReadSerialEvaluatorOptions(const SerialEvaluatorConfig& config,
                                SerialEvaluatorOptions* options) {
  if (config.has_eval_freq()) options->eval_freq = config.eval_freq();
  options->n_episode = config.n_episode();
  options->stop_value = config.stop_value();
  options->max_abnormal = config.max_abnormal();
  options->max_episode_steps = config.max_episode_steps();
}

absl::Status SerialProblemsToStatus(std::vector<std::string> problems,
                                    const std::vector<std::string>& option_problems,
                                    absl::string_view where) {
  if (problems.empty()) return absl::OkStatus();
  problems.insert(problems.end(), option_problems.begin(), option_problems.end());
  return ProblemsToStatus(problems, where);
}

}  // namespace ding
