// Finds commanders of parallel runs by the name in their config.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_COMMANDER_REGISTRY_H_
#define DING_WORKER_COORDINATOR_COMMANDER_COMMANDER_REGISTRY_H_

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The dependencies of a commander, beside its config. Converts implicitly from ComponentDeps.
struct CommanderDeps : ComponentDeps {
  CommanderDeps() = default;
  CommanderDeps(ComponentDeps component) : ComponentDeps(std::move(component)) {}  // NOLINT: above

  // Gives the settings of collecting tasks, as functions of the progress of the run. May be null;
  // must outlive the commander.
  CommandMode* policy = nullptr;
  // The mean return of an evaluation at which the run has converged.
  double stop_value = std::numeric_limits<double>::infinity();
  // Whether a confirmation with fresh episodes must also reach the stop value
  // (CollectorTask.confirmation).
  bool confirms = false;
  // The name of the value in the envs' info whose mean selects the best policy; empty: the mean
  // return selects it.
  std::string best_by;
  // Whether rows are collected. If not, the learner learns from a data set, and all collecting
  // tasks are evaluations.
  bool collects = true;
  // Whether the run evaluates. It does not in lockstep, nor with a data set if there is no env.
  bool evaluates = true;
  // Whether collecting tasks are given in rounds: as many as collector_task_space for each version
  // of the policy.
  bool lockstep = false;
  // The number at which this run begins to count env steps, if it continues an earlier run.
  int64_t first_env_step = 0;
  // The least number of train iterations between two log lines about collected data.
  int64_t collect_print_freq = 0;
  // Whether an opponent learns beside the policy. `opponent` gives the settings of its collecting
  // tasks, as `policy` does for the policy.
  bool has_opponent = false;
  CommandMode* opponent = nullptr;
  // The opponents that the evaluations of a league play.
  std::vector<EvalOpponent> eval_opponents;
};

// A type of commander (base/module.h).
struct CommanderDescriptor
    : Module<std::unique_ptr<BaseCommander>, CommanderConfig, const CommanderDeps&> {
  bool plays_games = false;  // whether its collecting tasks have two players instead of one
  // Whether it obeys CommanderDeps::collects and evaluates. Runs with a data set accept only such
  // commanders.
  bool for_data_sets = false;
  bool for_lockstep = false;  // whether it obeys CommanderDeps::lockstep
  bool for_opponent = false;  // whether it obeys CommanderDeps::has_opponent
};
inline ModuleRegistry<CommanderDescriptor>& CommanderRegistry() {
  static auto* const registry = new ModuleRegistry<CommanderDescriptor>("commander");
  return *registry;
}

// Make the commander that the config names, or find its type. Errors are those of
// ModuleRegistry::Create(); kInvalidArgument lists all problems of the config.
inline absl::StatusOr<std::unique_ptr<BaseCommander>> create_parallel_commander(
    const CommanderConfig& config, const CommanderDeps& deps) {
  return CommanderRegistry().Create(config, deps);
}
inline absl::StatusOr<CommanderDescriptor> get_parallel_commander_cls(
    const CommanderConfig& config) {
  return CommanderRegistry().Find(config.type());
}

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_COMMANDER_REGISTRY_H_
