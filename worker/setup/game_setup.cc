#include "ding_worker/worker/setup/game_setup.h"

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
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/policy/random_policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/saved_policy/policy_description.h"
#include "ding_worker/worker/serial_registry.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/supervised_setup.h"

namespace ding {
namespace {

constexpr char kCollectorType[] = "policy.collect.collector.type";

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
    return CheckSamePlayers(env, HasOpponent(config) ? 1 : 0);
  }
  DING_RETURN_IF_ERROR(CheckFits(kPath, type, env, SerialEvaluatorRegistry()));
  if (!config.policy().eval().has_opponent_checkpoint()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("policy.eval.opponent_checkpoint is set, but env '", env.name,
                   "', which evaluates, has 1 player: expected a game"));
}

absl::StatusOr<OpponentEvaluator::MakeOpponent> OpponentOf(const ExperimentConfig& config,
                                                           const EnvSpec& game,
                                                           std::shared_ptr<Policy> opponent,
                                                           uint64_t seed) {
  const EnvSpec player = PlayerSpec(game, 1);
  const bool has_checkpoint = config.policy().eval().has_opponent_checkpoint();
  if (!has_checkpoint && !HasOpponent(config)) {
    RandomPolicyOptions options;
    options.action = player.action;
    options.observation = player.observation;
    options.seed = Rng::DeriveSeed(seed, "opponent");
    options.modes = EvalModeOnly();
    return [options]() -> absl::StatusOr<std::shared_ptr<Policy>> {
      return CreateRandomPolicy(options);
    };
  }
  if (has_checkpoint) {
    const std::string& path = config.policy().eval().opponent_checkpoint();
    absl::StatusOr<std::unique_ptr<Policy>> loaded = LoadEvalPolicy(path, player);
    if (!loaded.ok()) return Annotate(loaded.status(), "policy.eval.opponent_checkpoint");
    opponent = *std::move(loaded);
  } else if (opponent == nullptr) {
    if (config.opponent().learns()) {
      return absl::InvalidArgumentError(
          "opponent.learns is true, so that what it has learned is in a checkpoint of its own: "
          "expected its path, .../ckpt/opponent_<name> of a serial run or .../ckpt_opponent/<name> "
          "of a parallel one, as policy.eval.opponent_checkpoint");
    }
    DING_ASSIGN_OR_RETURN(opponent, MakeOpponentPolicy(config, player, EvalModeOnly()));
  }
  return [opponent]() -> absl::StatusOr<std::shared_ptr<Policy>> { return opponent; };
}

}  // namespace

absl::Status CheckOpponent(const ExperimentConfig& config, const EnvSpec& env) {
  if (!HasOpponent(config)) return absl::OkStatus();
  if (env.players == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("opponent is set, but env '", env.name,
                     "' has 1 player: expected a game as env.type, or no opponent"));
  }
  return Annotate(CheckSamePlayers(env, /*first=*/1), "opponent");
}

absl::StatusOr<ExperimentConfig> OpponentConfig(const ExperimentConfig& config) {
  const OpponentSection& opponent = config.opponent();
  ExperimentConfig own = config;
  own.clear_opponent();
  own.set_seed(Rng::DeriveSeed(config.seed(), "opponent"));
  PolicySection& policy = *own.mutable_policy();
  policy.clear_params();
  if (opponent.has_type()) policy.set_type(opponent.type());
  if (opponent.has_params()) *policy.mutable_params() = opponent.params();
  if (!opponent.has_checkpoint()) return own;
  const auto read = [&]() -> absl::StatusOr<ExperimentConfig> {
    DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint,
                          OpenTrainCheckpoint(opponent.checkpoint()));
    DING_RETURN_IF_ERROR(CheckPolicyIsLinked(checkpoint.info()));
    return ConfigOfCheckpoint(checkpoint.info());
  };
  const absl::StatusOr<ExperimentConfig> saved = read();
  const std::string where = absl::StrCat("opponent.checkpoint ", opponent.checkpoint());
  if (!saved.ok()) return Annotate(saved.status(), where);
  if (opponent.has_type() && opponent.type() != saved->policy().type()) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": its policy is '", saved->policy().type(), "', but opponent.type is '",
        opponent.type(), "': expected a checkpoint of the same type"));
  }
  policy.set_type(saved->policy().type());
  if (!opponent.has_params()) *policy.mutable_params() = saved->policy().params();
  return own;
}

absl::StatusOr<std::shared_ptr<Policy>> MakeOpponentPolicy(const ExperimentConfig& config,
                                                           const EnvSpec& player,
                                                           const PolicyModes& modes) {
  DING_ASSIGN_OR_RETURN(const ExperimentConfig own, OpponentConfig(config));
  if (!config.opponent().has_checkpoint()) {
    absl::StatusOr<std::unique_ptr<Policy>> made = MakePolicy(own, player, modes);
    if (!made.ok()) return Annotate(made.status(), "opponent");
    return std::shared_ptr<Policy>(*std::move(made));
  }
  const std::string& path = config.opponent().checkpoint();
  const auto load = [&]() -> absl::StatusOr<std::shared_ptr<Policy>> {
    DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, OpenTrainCheckpoint(path));
    DING_ASSIGN_OR_RETURN(const EnvSpec trained, SpacesOf(checkpoint.info()));
    if (trained.observation != nullptr && trained.action != nullptr) {
      DING_RETURN_IF_ERROR(
          Annotate(CheckSameSpaces(player, trained),
                   absl::StrCat("its env '", trained.name, "', beside '", player.name, "'")));
    }
    DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, MakePolicy(own, player, modes));
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> model,
                          checkpoint.Component(kModelComponent));
    const bool learns = modes.learn && policy->learn_mode() != nullptr;
    DING_RETURN_IF_ERROR(learns ? policy->learn_mode()->LoadModel(model.get())
                                : policy->eval_mode()->LoadModel(model.get()));
    return std::shared_ptr<Policy>(std::move(policy));
  };
  absl::StatusOr<std::shared_ptr<Policy>> loaded = load();
  if (!loaded.ok()) return Annotate(loaded.status(), absl::StrCat("opponent.checkpoint ", path));
  return loaded;
}

absl::Status CheckOpponentLearns(Policy* opponent, const ExperimentConfig& own, bool on_policy) {
  if (opponent->learn_mode() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("opponent.learns is true, but policy '",
                                                   own.policy().type(),
                                                   "' does not learn: expected false"));
  }
  const auto kind = [](bool of) { return of ? "on-policy" : "off-policy"; };
  const bool found = opponent->collect_mode()->attributes().on_policy;
  if (found != on_policy) {
    return absl::InvalidArgumentError(
        absl::StrCat("opponent.type is '", own.policy().type(), "', which is ", kind(found),
                     ", and policy.type is ", kind(on_policy),
                     ": both learn as `policy` says, expected another type or learns: false"));
  }
  return CheckLearnsFromData(own, opponent->learn_mode());
}

absl::StatusOr<std::unique_ptr<ISerialCollector>> MakeCollector(const ExperimentConfig& config,
                                                                EnvManager* envs,
                                                                CollectMode* policy,
                                                                const ComponentDeps& deps) {
  if (envs->env_spec().players > 1) {
    return MakeGameCollector(config, envs, policy, std::nullopt, deps);
  }
  const SerialCollectorConfig& collector = config.policy().collect().collector();
  DING_RETURN_IF_ERROR(
      CheckFits(kCollectorType, collector.type(), envs->env_spec(), SerialCollectorRegistry()));
  DING_RETURN_IF_ERROR(CheckMakesTrainSamples(config, *policy));
  return create_serial_collector(collector, envs, policy, deps);
}

absl::StatusOr<std::unique_ptr<SelfPlayCollector>> MakeGameCollector(
    const ExperimentConfig& config, EnvManager* envs, CollectMode* policy,
    std::optional<SelfPlayCollector::Opponent> opponent, const ComponentDeps& deps) {
  const SerialCollectorConfig& collector = config.policy().collect().collector();
  DING_RETURN_IF_ERROR(
      CheckFits(kCollectorType, collector.type(), envs->env_spec(), BattleCollectorRegistry()));
  BattleEpisodeCollectorParams episodes;
  BattleSampleCollectorParams samples;
  if (collector.params().UnpackTo(&episodes) && episodes.get_train_sample()) {
    return absl::InvalidArgumentError(
        "policy.collect.collector.params.get_train_sample is true, which has no effect: training "
        "data are made of the choices of all players in any case; expected false");
  }
  const bool chooses =
      episodes.collect_players_size() > 0 ||
      (collector.params().UnpackTo(&samples) && samples.collect_players_size() > 0);
  if (chooses && opponent.has_value() && opponent->learns) {
    return absl::InvalidArgumentError(
        "policy.collect.collector.params.collect_players is set, but opponent.learns is true: "
        "expected none, because the rows of all players are learned from");
  }
  const auto make = [&](EnvManager* games, const std::vector<CollectMode*>& policies) {
    return create_battle_collector(collector, games, policies, deps);
  };
  return SelfPlayCollector::Create(make, envs, policy, deps.name, opponent);
}

absl::Status CheckEvaluator(const ExperimentConfig& config, const EnvSpec& env) {
  DING_RETURN_IF_ERROR(CheckEvaluatorFits(config, env));
  // The run has an opponent that learns.
  const bool has_opponent =
      OpponentLearns(config) && !config.policy().eval().has_opponent_checkpoint();
  return env.players == 1 || has_opponent
             ? absl::OkStatus()
             : OpponentOf(config, env, /*opponent=*/nullptr, /*seed=*/0).status();
}

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> MakeEvaluator(const ExperimentConfig& config,
                                                                EnvManager* envs, EvalMode* policy,
                                                                const ComponentDeps& deps,
                                                                std::shared_ptr<Policy> opponent) {
  const SerialEvaluatorConfig& evaluator = config.policy().eval().evaluator();
  const EnvSpec& env = envs->env_spec();
  DING_RETURN_IF_ERROR(CheckEvaluatorFits(config, env));
  if (env.players == 1) return create_serial_evaluator(evaluator, envs, policy, deps);
  DING_ASSIGN_OR_RETURN(OpponentEvaluator::MakeOpponent make_opponent,
                        OpponentOf(config, env, std::move(opponent), deps.seed));
  const auto make = [&](EnvManager* games, const std::vector<EvalMode*>& policies) {
    return create_battle_evaluator(evaluator, games, policies, deps);
  };
  return OpponentEvaluator::Create(make, std::move(make_opponent), envs, policy, deps.name);
}

absl::StatusOr<std::unique_ptr<ISerialEvaluator>> MakeConfirmer(const ExperimentConfig& config,
                                                                EnvManager* envs, EvalMode* policy,
                                                                const ComponentDeps& deps,
                                                                std::shared_ptr<Policy> opponent) {
  if (config.env().n_confirm_episode() == 0) return nullptr;
  ExperimentConfig confirms = config;
  SerialEvaluatorConfig& evaluator =
      *confirms.mutable_policy()->mutable_eval()->mutable_evaluator();
  evaluator.set_n_episode(std::max<int64_t>(config.env().n_confirm_episode(), envs->env_num()));
  if (evaluator.type() == "interaction") evaluator.clear_params();  // They are of videos.
  ComponentDeps own = deps;
  own.name = "confirmation";
  own.seed = Rng::DeriveSeed(deps.seed, own.name);  // of opponents that act at random
  return MakeEvaluator(confirms, envs, policy, own, std::move(opponent));
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
