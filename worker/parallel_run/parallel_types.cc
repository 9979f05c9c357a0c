#include "ding_worker/worker/parallel_run/parallel_types.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "ding_worker/worker/parallel_run/parallel_collect.h"

namespace ding {

GivenParams CommCollectorConfig(const ExperimentConfig& config) {
  const SystemSection& system = config.system();
  return {system.comm_collector_type(),
          system.has_comm_collector_params() ? &system.comm_collector_params() : nullptr,
          "comm_collector_params"};
}

GivenParams CommLearnerConfig(const ExperimentConfig& config) {
  const SystemSection& system = config.system();
  return {system.comm_learner_type(),
          system.has_comm_learner_params() ? &system.comm_learner_params() : nullptr,
          "comm_learner_params"};
}

std::vector<std::string> FindTypeProblems(const ExperimentConfig& config) {
  std::vector<std::string> problems;
  const auto report = [&](absl::string_view path, const absl::Status& status) {
    if (!status.ok()) problems.push_back(absl::StrCat(path, ": ", status.message()));
  };
  // `descriptor` is what a registry has found; `type_path` and `section` are the paths of the type and of the message
  // around its parameters.
  const auto check = [&](const auto& descriptor, absl::string_view type_path,
                         absl::string_view section, const GivenParams& given) {
    report(type_path, descriptor.status());
    if (descriptor.ok()) report(section, CheckParams(descriptor->check_params, given));
  };
  const SystemSection& system = config.system();
  check(CommCollectorRegistry().Find(system.comm_collector_type()), "system.comm_collector_type",
        "system", CommCollectorConfig(config));
  check(CommLearnerRegistry().Find(system.comm_learner_type()), "system.comm_learner_type",
        "system", CommLearnerConfig(config));
  const CommanderConfig& commander_config = config.policy().other().commander();
  const absl::StatusOr<CommanderDescriptor> commander =
      get_parallel_commander_cls(commander_config);
  check(commander, "policy.other.commander.type", "policy.other.commander", commander_config);
  const ParallelCollectorConfig collector_config = MakeCollectorConfig(config);
  const absl::StatusOr<ParallelCollectorDescriptor> collector =
      get_parallel_collector_cls(collector_config);
  check(collector, "policy.collect.parallel_collector.type", "policy.collect.parallel_collector",
        collector_config);
  if (!collector_config.reward_shaping().empty()) {
    report("policy.collect.collector.params",
           FindRewardShaping(collector_config.reward_shaping()).status());
    if (collector.ok() && collector->plays_games) {
      problems.push_back(
          absl::StrCat("policy.collect.collector.params.reward_shaping is '",
                       collector_config.reward_shaping(), "' beside collector '", collector->name,
                       "', which plays games, expected none: it is for envs with one player"));
    }
  }
  for (int i = 0; i < config.metrics().sink_size(); ++i) {
    const SinkConfig& sink = config.metrics().sink(i);
    const std::string section = absl::StrCat("metrics.sink[", i, "]");
    check(SinkRegistry().Find(sink.type()), absl::StrCat(section, ".type"), section, sink);
  }
  if (commander.ok() && collector.ok() && commander->plays_games != collector->plays_games) {
    problems.push_back(
        absl::StrCat("policy.collect.parallel_collector.type is '", collector->name,
                     "' beside commander '", commander->name, "', expected one for ",
                     commander->plays_games ? "games: 'marine'" : "envs for one: 'zergling'"));
  }
  return problems;
}

}  // namespace ding
