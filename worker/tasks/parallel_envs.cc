#include "ding_worker/worker/tasks/parallel_envs.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/env/env.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/setup/setup_problems.h"
#include "ding_worker/worker/tasks/parallel_collect.h"

namespace ding {
namespace {

// OK if a run may collect in `game`, by self-play or in a league.
absl::Status CheckGame(const ExperimentConfig& config, const EnvSpec& game) {
  std::vector<std::string> problems;
  const auto refuse = [&](absl::string_view path, absl::string_view found,
                          absl::string_view expected) {
    problems.push_back(absl::StrCat(path, " is '", found, "', but env '", game.name,
                                    "' is a game of ", game.players, " players, expected ",
                                    expected));
  };
  const std::string shaping = MakeCollectorConfig(config).reward_shaping();
  if (!shaping.empty()) {
    refuse("policy.collect.collector.params.reward_shaping", shaping,
           "none: it is for envs with one player");
  }
  const BufferConfig& buffer = config.policy().other().replay_buffer();
  if (HasItemsOfSequences(buffer)) {
    refuse("policy.other.replay_buffer.type", buffer.type(),
           "a type that draws single rows: the choices of a game are handed over one by one");
  }
  return StartupProblemsToStatus(problems);
}

}  // namespace

bool PlaysGames(const ExperimentConfig& config) {
  const absl::StatusOr<CommanderDescriptor> commander =
      get_parallel_commander_cls(config.policy().other().commander());
  return commander.ok() && commander->plays_games;
}

bool Evaluates(const ExperimentConfig& config) {
  return !IsSupervised(config) || !config.env().type().empty();
}

int CollectorsOf(const ExperimentConfig& config) {
  return Evaluates(config) ? config.policy().collect().collector().collector_num() : 0;
}

int LearnerTasksOf(const ExperimentConfig& config) {
  return OpponentLearns(config) ? 2 : config.policy().other().commander().learner_task_space();
}

absl::StatusOr<EnvSpec> SpecOfGame(const ExperimentConfig& config, const Clock* clock,
                                   const EnvPlace& place) {
  EnvsOptions options;
  options.place = place;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<EnvManager> env,
                        MakeEnvManager(config, 1, clock, options));
  DING_RETURN_IF_ERROR(RefuseEnvStatistics(*env));
  const EnvSpec& spec = env->env_spec();
  const std::string commander = absl::StrCat("policy.other.commander.type '",
                                             config.policy().other().commander().type(), "'");
  if (PlaysGames(config) && spec.players != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "env '", config.env().type(), "' has ", spec.players,
        spec.players == 1 ? " player" : " players", ", expected a game of 2 for ", commander));
  }
  if (spec.players > 1) DING_RETURN_IF_ERROR(CheckGame(config, spec));
  DING_RETURN_IF_ERROR(CheckOpponent(config, spec));
  // One policy plays for all players, or the players of a league change their seats.
  if (!HasOpponent(config)) DING_RETURN_IF_ERROR(CheckSamePlayers(spec));
  if (OpponentLearns(config) && spec.players != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("opponent.learns is true, but env '", config.env().type(), "' has ",
                     spec.players, " players: expected a game of 2 in a parallel run"));
  }
  return spec;
}

absl::StatusOr<EnvSpec> SpecOfEnv(const ExperimentConfig& config, const Clock* clock,
                                  const EnvPlace& place, int player) {
  DING_ASSIGN_OR_RETURN(const EnvSpec spec, SpecOfGame(config, clock, place));
  return PlayerSpec(spec, player);
}

absl::StatusOr<std::shared_ptr<Policy>> MakeOpponent(const ExperimentConfig& config,
                                                     const Clock* clock) {
  if (!HasOpponent(config)) return nullptr;
  DING_ASSIGN_OR_RETURN(const EnvSpec player,
                        SpecOfEnv(config, clock, {EnvPlace::kCoordinator, 0}, /*player=*/1));
  return MakeOpponentPolicy(config, player,
                            OpponentLearns(config) ? PolicyModes() : EvalModeOnly());
}

absl::StatusOr<std::unique_ptr<EnvManager>> MakeEvaluatorEnvs(const ExperimentConfig& config,
                                                              const std::string& opponent,
                                                              int env_num, const Clock* clock,
                                                              const EnvPlace& place) {
  EnvsOptions options;
  options.place = place;
  return PlaysGames(config) ? MakeOpponentEnvManager(config, opponent, env_num, clock, options)
                            : MakeEvaluatorEnvManager(config, env_num, clock, options);
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
    DING_ASSIGN_OR_RETURN(
        const std::unique_ptr<EnvManager> env,
        MakeEvaluatorEnvs(config, opponent.name, 1, clock, {EnvPlace::kCoordinator, 0}));
    DING_RETURN_IF_ERROR(CheckSamePlayer(player, env->env_spec()));
    DING_RETURN_IF_ERROR(CheckEvaluator(config, env->env_spec()));
    const ReturnBounds returns = BoundsOfReturns(env->env_spec());
    bounds = bounds.has_value() ? EitherOf(*bounds, returns) : returns;
  }
  return bounds.value_or(ReturnBounds());
}

}  // namespace ding
