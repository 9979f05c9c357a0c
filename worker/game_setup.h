// Collector and evaluator of a run, whether its envs are for one player or games:
//
//     policy.collect.collector   env for one        game
//       sample, episode          that one           refused
//       sample_1v1, episode_1v1  refused            self-play: the policy in all seats
//                                                   (collector/self_play_collector.h)
//     policy.eval.evaluator
//       interaction              that one           refused
//       battle_interaction       refused            the policy against an opponent: of
//                                                   policy.eval.opponent_checkpoint, or random
//                                                   (collector/opponent_evaluator.h)
//
// So a run has one loop for both. It may collect in a game and evaluate in an env for one, or the
// other way round (env.evaluator_type), if what a player sees and does is the same.
//
// Ownership: envs and policies must outlive what is made.   Threads: thread-safe.
// Errors:    kInvalidArgument says which setting does not fit, and which ones would.
#ifndef DING_WORKER_WORKER_GAME_SETUP_H_
#define DING_WORKER_WORKER_GAME_SETUP_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

absl::StatusOr<std::unique_ptr<ISerialCollector>> MakeCollector(const ExperimentConfig& config,
                                                                EnvManager* envs,
                                                                CollectMode* policy,
                                                                const ComponentDeps& deps);

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> MakeEvaluator(const ExperimentConfig& config,
                                                                EnvManager* envs, EvalMode* policy,
                                                                const ComponentDeps& deps);

// OK if a player sees and does the same in both; else what differs.
absl::Status CheckSamePlayer(const EnvSpec& collector_env, const EnvSpec& evaluator_env);

}  // namespace ding

#endif  // DING_WORKER_WORKER_GAME_SETUP_H_
