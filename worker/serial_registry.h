// Includes the registries of serial runs, and the functions that make modules from their configs.
// This suffices for a program of one process; worker/registry.h adds the registries of parallel
// runs.
//
//   create_env, create_env_manager                    env/env_registry.h
//   create_policy, create_network                     policy/policy_registry.h
//   DescribeActor                                     policy/actor/describe_actor.h
//   create_schedule                                   policy/schedule_registry.h
//   create_buffer, get_buffer_cls                     replay_buffer/buffer_registry.h
//   create_selector                                   replay_buffer/buffer_registry.h
//   create_remover                                    replay_buffer/buffer_registry.h
//   create_serial_collector, get_serial_collector_cls,
//   create_battle_collector, get_battle_collector_cls,
//   create_serial_evaluator, create_battle_evaluator,
//   create_metric_evaluator                           collector/serial_registry.h
//   RewardShapingRegistry                             collector/core/reward_shaping.h
//   create_learner                                    learner/learner_registry.h
//   register_learner_hook, build_learner_hook_by_cfg  learner/learner_registry.h
//   add_learner_hook, merge_hooks, show_hooks         learner/hook.h
//   create_stopper                                    learner/stopper_registry.h
//   create_sink                                       metrics/sink_registry.h
//   VideoFormatRegistry                               metrics/video.h
//
// Only linked modules can be made: a program links the factory targets that it needs, or
// //worker:default_modules.
#ifndef DING_WORKER_WORKER_SERIAL_REGISTRY_H_
#define DING_WORKER_WORKER_SERIAL_REGISTRY_H_

#include <string>

#include "ding_worker/collector/core/reward_shaping.h"  // IWYU pragma: export
#include "ding_worker/collector/serial_registry.h"      // IWYU pragma: export
#include "ding_worker/env/env_registry.h"               // IWYU pragma: export
#include "ding_worker/learner/hook.h"                   // IWYU pragma: export
#include "ding_worker/learner/learner_registry.h"       // IWYU pragma: export
#include "ding_worker/learner/stopper_registry.h"       // IWYU pragma: export
#include "ding_worker/metrics/sink_registry.h"          // IWYU pragma: export
#include "ding_worker/metrics/video.h"                  // IWYU pragma: export
#include "ding_worker/policy/actor/describe_actor.h"    // IWYU pragma: export
#include "ding_worker/policy/policy_registry.h"         // IWYU pragma: export
#include "ding_worker/policy/schedule_registry.h"       // IWYU pragma: export
#include "ding_worker/replay_buffer/buffer_registry.h"  // IWYU pragma: export

namespace ding {

// Returns the text that `--list_modules` of a serial program prints: the names in each registry
// included above, with one line of help each, in the format of worker/list_registry.h.
std::string ListSerialModules();

}  // namespace ding

#endif  // DING_WORKER_WORKER_SERIAL_REGISTRY_H_
