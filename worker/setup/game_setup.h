// Makes the collector and the evaluator of a run, for envs with one player and for games:
//
//     policy.collect.collector   env for one        game
//       sample, episode          of that type       refused
//       sample_1v1, episode_1v1  refused            self-play: the policy in all seats, or the policy
//                                                   against `opponent`
//                                                   (collector/serial/self_play_collector.h)
//     policy.eval.evaluator
//       interaction              of that type       refused
//       battle_interaction       refused            the policy against an opponent: the policy in
//                                                   policy.eval.opponent_checkpoint, the policy of
//                                                   `opponent`, or random
//                                                   (collector/evaluator/opponent_evaluator.h)
//
// So the same loop runs both kinds. A run may collect in a game and evaluate in an env for one
// player, or the other way round (env.evaluator_type), if the player's observations and actions are
// the same.
//
// Ownership: envs and policies must outlive what is made from them.   Threads: thread-safe.
// Errors:    kInvalidArgument names the setting that does not fit, and the values that would.
#ifndef DING_WORKER_WORKER_SETUP_GAME_SETUP_H_
#define DING_WORKER_WORKER_SETUP_GAME_SETUP_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/serial/self_play_collector.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// OK if the env is a game in which an opponent can play, as the config's `opponent` says.
absl::Status CheckOpponent(const ExperimentConfig& config, const EnvSpec& env);
// Returns the config of a run whose policy is the opponent's: with its type and params, and a seed
// of its own. Errors name the field of `opponent`; kInvalidArgument also if the checkpoint is of
// another type of policy.
absl::StatusOr<ExperimentConfig> OpponentConfig(const ExperimentConfig& config);
// Makes the policy of the config's `opponent`, and loads its checkpoint. Errors name the field;
// kInvalidArgument also if the checkpoint's spaces are not the spaces of `player`, the game as its
// second player sees it, or its model does not fit.
absl::StatusOr<std::shared_ptr<Policy>> MakeOpponentPolicy(const ExperimentConfig& config,
                                                           const EnvSpec& player,
                                                           const PolicyModes& modes);
// OK if an opponent with all modes can learn beside a policy that is `on_policy` or not. `own` is
// OpponentConfig().
absl::Status CheckOpponentLearns(Policy* opponent, const ExperimentConfig& own, bool on_policy);

// In a game, the policy plays itself.
absl::StatusOr<std::unique_ptr<ISerialCollector>> MakeCollector(const ExperimentConfig& config,
                                                                EnvManager* envs,
                                                                CollectMode* policy,
                                                                const ComponentDeps& deps);
// Does the same for a game: the policy plays against `opponent`, or against itself if there is
// none.
absl::StatusOr<std::unique_ptr<SelfPlayCollector>> MakeGameCollector(
    const ExperimentConfig& config, EnvManager* envs, CollectMode* policy,
    std::optional<SelfPlayCollector::Opponent> opponent, const ComponentDeps& deps);

// OK if MakeEvaluator() can make an evaluator for such envs, as far as the spec tells: its type
// fits, and its opponent can be loaded.
absl::Status CheckEvaluator(const ExperimentConfig& config, const EnvSpec& env);

// `opponent` is the policy of the config's `opponent`, if the caller has it; null: it is made if a
// game needs it.
absl::StatusOr<std::unique_ptr<ISerialEvaluator>> MakeEvaluator(
    const ExperimentConfig& config, EnvManager* envs, EvalMode* policy, const ComponentDeps& deps,
    std::shared_ptr<Policy> opponent = nullptr);

// Makes the evaluator of confirmations: it plays env.n_confirm_episode episodes (at least one per
// env) and makes no videos. Null if that is 0.
absl::StatusOr<std::unique_ptr<ISerialEvaluator>> MakeConfirmer(
    const ExperimentConfig& config, EnvManager* envs, EvalMode* policy, const ComponentDeps& deps,
    std::shared_ptr<Policy> opponent = nullptr);

// OK if a player has the same observations and actions in both envs of a run, as defined by
// CheckSameSpaces().
absl::Status CheckSamePlayer(const EnvSpec& collector_env, const EnvSpec& evaluator_env);

// OK if both envs for one player have the same fields in observations and actions, with as many
// categories; else kInvalidArgument names the first field that differs.
absl::Status CheckSameSpaces(const EnvSpec& expected, const EnvSpec& found);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SETUP_GAME_SETUP_H_
