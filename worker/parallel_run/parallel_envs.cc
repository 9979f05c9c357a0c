#include "ding_worker/worker/parallel_run/parallel_envs.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/env/game_spec.h"
#include "ding_worker/worker/run/experiment_setup.h"
#include "ding_worker/worker/run/game_setup.h"

namespace ding {

bool PlaysGames(const ExperimentConfig& config) {
  const absl::StatusOr<CommanderDescriptor> commander =
      get_parallel_commander_cls(config.policy().other().commander());
  return commander.ok() && commander->plays_games;
}

absl::StatusOr<EnvSpec> SpecOfEnv(const ExperimentConfig& config, const Clock* clock) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<EnvManager> env, MakeEnvManager(config, 1, clock));
  const EnvSpec& spec = env->env_spec();
  const std::string commander = absl::StrCat("policy.other.commander.type '",
                                             config.policy().other().commander().type(), "'");
  if (PlaysGames(config) && spec.players != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "env '", config.env().type(), "' has ", spec.players,
        spec.players == 1 ? " player" : " players", ", expected a game of 2 for ", commander));
  }
  if (!PlaysGames(config) && spec.players > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("env '", config.env().type(), "' is a game of ", spec.players,
                     " players, expected an env for one for ", commander,
                     "; games of 2 are for 'one_vs_one', with parallel collector 'marine'"));
  }
  // The players of a league change their seats.
  DING_RETURN_IF_ERROR(CheckSamePlayers(spec));
  return PlayerSpec(spec);
}

absl::StatusOr<std::unique_ptr<EnvManager>> MakeEvaluatorEnvs(const ExperimentConfig& config,
                                                              const std::string& opponent,
                                                              int env_num, const Clock* clock) {
  return PlaysGames(config) ? MakeOpponentEnvManager(config, opponent, env_num, clock)
                            : MakeEvaluatorEnvManager(config, env_num, clock);
}

std::vector<EvalOpponent> OpponentsOf(const ExperimentConfig& config) {
  std::vector<EvalOpponent> opponents;
  for (const EvalOpponentConfig& opponent : config.env().eval_opponent()) {
    opponents.push_back({opponent.name(), std::nullopt});
    if (opponent.has_win_return()) opponents.back().win_return = opponent.win_return();
  }
  if (opponents.empty()) opponents.push_back({kRuleBasedOpponent, std::nullopt});
  return opponents;
}

absl::StatusOr<ReturnBounds> CheckEvaluatorEnvs(const ExperimentConfig& config,
                                                const EnvSpec& player, const Clock* clock) {
  std::optional<ReturnBounds> bounds;
  for (const EvalOpponent& opponent : OpponentsOf(config)) {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<EnvManager> env,
                          MakeEvaluatorEnvs(config, opponent.name, 1, clock));
    DING_RETURN_IF_ERROR(CheckSamePlayer(player, env->env_spec()));
    const ReturnBounds returns = BoundsOfReturns(env->env_spec());
    bounds = bounds.has_value() ? EitherOf(*bounds, returns) : returns;
    if (env->env_spec().players == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "env '", env->env_spec().name, "', which evaluates, is a game of ", env->env_spec().players,
        " players, expected an env for one, which plays the opponent itself: set "
        "env.evaluator_type",
        PlaysGames(config) ? " or env.eval_opponent" : ""));
  }
  return bounds.value_or(ReturnBounds());
}

}  // namespace ding
