// Reads the options of a SoloCommander from the config.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_SOLO_OPTIONS_H_
#define DING_WORKER_COORDINATOR_COMMANDER_SOLO_OPTIONS_H_

#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.pb.h"

namespace ding {

inline SoloCommander::Options ToSoloOptions(const CommanderConfig& config,
                                            const CommanderDeps& deps) {
  SoloCommander::Options options;
  if (config.has_collector_task_space()) {
    options.collector_task_space = config.collector_task_space();
  }
  options.learner_task_space = config.learner_task_space();
  options.eval_interval = config.eval_interval();
  options.collector_resources = config.collector_resources();
  options.learner_resources = config.learner_resources();
  options.collects = deps.collects;
  options.evaluates = deps.evaluates;
  options.lockstep = deps.lockstep;
  options.stop_value = deps.stop_value;
  options.confirms = deps.confirms;
  options.best_by = deps.best_by;
  options.log_train_iters = deps.collect_print_freq;
  options.first_env_step = deps.first_env_step;
  options.stop_after_seconds = config.stop_after_seconds();
  return options;
}

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_SOLO_OPTIONS_H_
