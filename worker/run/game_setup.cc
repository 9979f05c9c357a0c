#include "ding_worker/worker/run/game_setup.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/evaluator/opponent_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial/self_play_collector.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/game_spec.h"
#include "ding_worker/policy/random_policy.h"
#include "ding_worker/worker/run/experiment_setup.h"
#include "ding_worker/worker/serial_registry.h"

namespace ding {
namespace {

// OK if the type is one of those that fit the env's number of players (`fitting`).
template <typename Factory>
absl::Status CheckFits(absl::string_view path, const std::string& type, const EnvSpec& env,
                       const Registry<Factory>& fitting, absl::string_view hint = "") {
  if (fitting.Find(type).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is '", type, "', which is for ", env.players > 1 ? "envs for one" : "games",
      ", but env '", env.name, "' has ", env.players, env.players > 1 ? " players" : " player",
      "; expected one of: ", absl::StrJoin(fitting.Names(), ", "), hint));
}

// An on-policy policy needs more columns in its rows than those that are collected.
absl::Status CheckMakesTrainSamples(const ExperimentConfig& config, const CollectMode& policy) {
  const SerialCollectorConfig& collector = config.policy().collect().collector();
  EpisodeCollectorParams params;
  if (!policy.attributes().on_policy || collector.type() != "episode" ||
      (collector.has_params() && !collector.params().UnpackTo(&params)) ||
      params.get_train_sample()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "policy.collect.collector.params.get_train_sample is false, but '", config.policy().type(),
      "' is on-policy, it learns from the samples that GetTrainSample() makes of its episodes: "
      "expected true"));
}

// OK if the evaluator and its opponent are for envs with as many players as `env`.
absl::Status CheckEvaluatorFits(const ExperimentConfig& config, const EnvSpec& env) {
  const std::string& type = config.policy().eval().evaluator().type();
  constexpr char kPath[] = "policy.eval.evaluator.type";
  if (env.players > 1) {
    DING_RETURN_IF_ERROR(CheckFits(kPath, type, env, BattleEvaluatorRegistry(),
                                   ", or an env for one as env.evaluator_type"));
    return CheckSamePlayers(env);
  }
  DING_RETURN_IF_ERROR(CheckFits(kPath, type, env, SerialEvaluatorRegistry()));
  if (!config.policy().eval().has_opponent_checkpoint()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("policy.eval.opponent_checkpoint is set, but env '", env.name,
                   "', which evaluates, has 1 player: expected a game"));
}

absl::StatusOr<OpponentEvaluator::MakeOpponent> OpponentOf(const ExperimentConfig& config,
                                                           const EnvSpec& player, uint64_t seed) {
  if (!config.policy().eval().has_opponent_checkpoint()) {
    RandomPolicyOptions options;
    options.action = player.action;
    options.observation = player.observation;
    options.seed = Rng::DeriveSeed(seed, "opponent");
    options.modes = EvalModeOnly();
    return [options]() -> absl::StatusOr<std::shared_ptr<Policy>> {
      return CreateRandomPolicy(options);
    };
  }
  const std::string& path = config.policy().eval().opponent_checkpoint();
  absl::StatusOr<std::unique_ptr<Policy>> loaded = LoadEvalPolicy(path, player);
  if (!loaded.ok()) return Annotate(loaded.status(), "policy.eval.opponent_checkpoint");
  const std::shared_ptr<Policy> opponent = *std::move(loaded);
  return [opponent]() -> absl::StatusOr<std::shared_ptr<Policy>> { return opponent; };
}

}  // namespace

absl::StatusOr<std::unique_ptr<ISerialCollector>> MakeCollector(const ExperimentConfig& config,
                                                                EnvManager* envs,
                                                                CollectMode* policy,
                                                                const ComponentDeps& deps) {
  const SerialCollectorConfig& collector = config.policy().collect().collector();
  constexpr char kPath[] = "policy.collect.collector.type";
  if (envs->env_spec().players == 1) {
    DING_RETURN_IF_ERROR(
        CheckFits(kPath, collector.type(), envs->env_spec(), SerialCollectorRegistry()));
    DING_RETURN_IF_ERROR(CheckMakesTrainSamples(config, *policy));
    return create_serial_collector(collector, envs, policy, deps);
  }
  DING_RETURN_IF_ERROR(
      CheckFits(kPath, collector.type(), envs->env_spec(), BattleCollectorRegistry()));
  BattleEpisodeCollectorParams params;
  if (collector.params().UnpackTo(&params) && params.get_train_sample()) {
    return absl::InvalidArgumentError(
        "policy.collect.collector.params.get_train_sample is true, which has no effect: self-play "
        "makes training data of the choices of all players in any case; expected false");
  }
  const auto make = [&](EnvManager* games, const std::vector<CollectMode*>& policies) {
    return create_battle_collector(collector, games, policies, deps);
  };
  return SelfPlayCollector::Create(make, envs, policy, deps.name);
}

absl::Status CheckEvaluator(const ExperimentConfig& config, const EnvSpec& env) {
  DING_RETURN_IF_ERROR(CheckEvaluatorFits(config, env));
  return env.players == 1 ? absl::OkStatus()
                          : OpponentOf(config, PlayerSpec(env), /*seed=*/0).status();
}

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> MakeEvaluator(const ExperimentConfig& config,
                                                                EnvManager* envs, EvalMode* policy,
                                                                const ComponentDeps& deps) {
  const SerialEvaluatorConfig& evaluator = config.policy().eval().evaluator();
  const EnvSpec& env = envs->env_spec();
  DING_RETURN_IF_ERROR(CheckEvaluatorFits(config, env));
  if (env.players == 1) return create_serial_evaluator(evaluator, envs, policy, deps);
  DING_ASSIGN_OR_RETURN(OpponentEvaluator::MakeOpponent opponent,
                        OpponentOf(config, PlayerSpec(env), deps.seed));
  const auto make = [&](EnvManager* games, const std::vector<EvalMode*>& policies) {
    return create_battle_evaluator(evaluator, games, policies, deps);
  };
  return OpponentEvaluator::Create(make, std::move(opponent), envs, policy, deps.name);
}

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> MakeConfirmer(const ExperimentConfig& config,
                                                                EnvManager* envs, EvalMode* policy,
                                                                const ComponentDeps& deps) {
  if (config.env().n_confirm_episode() == 0) return nullptr;
  ExperimentConfig confirms = config;
  SerialEvaluatorConfig& evaluator =
      *confirms.mutable_policy()->mutable_eval()->mutable_evaluator();
  evaluator.set_n_episode(std::max<int64_t>(config.env().n_confirm_episode(), envs->env_num()));
  if (evaluator.type() == "interaction") evaluator.clear_params();  // They are of videos.
  ComponentDeps own = deps;
  own.name = "confirmation";
  own.seed = Rng::DeriveSeed(deps.seed, own.name);  // of opponents that act at random
  return MakeEvaluator(confirms, envs, policy, own);
}

absl::Status CheckSamePlayer(const EnvSpec& collector_env, const EnvSpec& evaluator_env) {
  return Annotate(CheckSameSpaces(PlayerSpec(collector_env), PlayerSpec(evaluator_env)),
                  absl::StrCat("env '", evaluator_env.name, "', which evaluates, beside '",
                               collector_env.name, "', which collects"));
}

absl::Status CheckSameSpaces(const EnvSpec& expected, const EnvSpec& found) {
  const auto check = [&](const SpecPtr& a, const SpecPtr& b, absl::string_view what) {
    DING_RETURN_IF_ERROR(CheckSameLayout(*a, *b, what));
    for (int i = 0; i < a->size(); ++i) {
      if (a->field(i).is_discrete() == b->field(i).is_discrete() &&
          a->field(i).num_categories == b->field(i).num_categories) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(what, ": field '", b->field(i).name, "' is ",
                                                     b->field(i).DebugString(), ", expected ",
                                                     a->field(i).DebugString()));
    }
    return absl::OkStatus();
  };
  absl::Status status = check(expected.observation, found.observation, "observation");
  status.Update(check(expected.action, found.action, "action"));
  return status;
}

}  // namespace ding
