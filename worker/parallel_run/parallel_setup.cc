#include "ding_worker/worker/parallel_run/parallel_setup.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/collector/parallel/random_start.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/eval_opponent.h"
#include "ding_worker/coordinator/coordinator_config.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/game_spec.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/parallel_run/earlier_run.h"
#include "ding_worker/worker/parallel_run/expected_data.h"
#include "ding_worker/worker/parallel_run/item_buffer.h"
#include "ding_worker/worker/parallel_run/parallel_types.h"
#include "ding_worker/worker/run/experiment_setup.h"
#include "ding_worker/worker/run/game_setup.h"
#include "ding_worker/worker/run/run_checkpoints.h"
#include "ding_worker/worker/run/sequence_problems.h"

namespace ding {
namespace {

// Train iterations between two reports of a learner whose buffer needs no priorities.
constexpr int64_t kSendInfoFreq = 20;
// Seconds of training that the death of a learner may lose, if the config does not say otherwise.
constexpr double kMaxResumeSeconds = 10;
// Type of the workers whose data are in Redis.
constexpr absl::string_view kRedisType = "grpc_redis";
// The shortest lease that a session supports.
constexpr double kMinLeaseSeconds = 0.02;

// All envs of an evaluation play the same number of episodes.
int64_t EvaluationEpisodesPerEnv(const EnvSection& env) {
  const int64_t envs = env.evaluator_env_num();
  return std::max(env.evaluator_episode_num(), (env.n_evaluator_episode() + envs - 1) / envs);
}

// Whether the run is a league.
bool PlaysGames(const ExperimentConfig& config) {
  const absl::StatusOr<CommanderDescriptor> commander =
      get_parallel_commander_cls(config.policy().other().commander());
  return commander.ok() && commander->plays_games;
}

// Returns the observations and actions of one player in the env that collects. It is an error if
// the commander is not for envs of this kind.
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
  return PlayerSpec(spec);
}

// Makes the envs that evaluate; in a league, against the opponent that the task names.
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

// Checks that the envs that evaluate are for one player, with the observations and actions of
// `player`. Returns the bounds of the returns of evaluations.
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

class ConfiguredCollector : public TaskCollector {
 public:
  static absl::StatusOr<std::unique_ptr<TaskCollector>> Create(const ExperimentConfig& config,
                                                               const CollectorTask& task,
                                                               CollectorLink* link,
                                                               ComponentDeps deps) {
    auto made = std::make_unique<ConfiguredCollector>();
    const uint64_t seed = config.seed();
    const uint64_t number = static_cast<uint64_t>(task.number());
    const bool eval = task.eval_flag();
    DING_ASSIGN_OR_RETURN(
        made->env_, eval ? MakeEvaluatorEnvs(config, task.eval_opponent(),
                                             config.env().evaluator_env_num(), deps.clock)
                         : MakeEnvManager(config, config.env().collector_env_num(), deps.clock));
    // All evaluations have the same episodes, while no two collecting tasks do.
    DING_RETURN_IF_ERROR(made->env_->Seed(eval ? Rng::DeriveSeed(seed, "evaluator_env")
                                               : Rng::DeriveSeed(seed, "collector_env", number),
                                          /*dynamic=*/true));
    PolicyModes modes;
    modes.learn = modes.command = false;
    modes.collect = !eval;
    modes.eval = eval;
    PolicyContext context = MakePolicyContext(config, PlayerSpec(made->env_->env_spec()), modes);
    for (int i = 0; i < std::max(1, task.player_size()); ++i) {
      const uint64_t own_seed = Rng::DeriveSeed(seed, "collect_policy", number);
      context.seed =
          i == 0 ? own_seed : Rng::DeriveSeed(own_seed, "player", static_cast<uint64_t>(i));
      DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy,
                            create_policy(MakePolicyConfig(config), context));
      made->policies_.push_back(std::move(policy));
      made->collect_modes_.push_back(made->policies_.back()->collect_mode());
      if (!task.acts_at_random()) continue;
      DING_ASSIGN_OR_RETURN(
          made->random_starts_.emplace_back(),
          RandomStart::Create(made->collect_modes_.back(), PlayerSpec(made->env_->env_spec()),
                              Rng::DeriveSeed(context.seed, "random_collect"),
                              [link] { return link->acts_at_random(); }));
      made->collect_modes_.back() = made->random_starts_.back().get();
    }

    ParallelCollectorTask parameters;
    parameters.home_seat = task.home_seat();
    parameters.task_id = task.task_id();
    parameters.eval_flag = eval;
    parameters.collect_setting = FromSettings(task.collect_setting());
    ParallelCollectorParts parts;
    parts.env = made->env_.get();
    parts.collect_mode = made->collect_modes_[0];
    parts.eval_mode = made->policies_[0]->eval_mode();
    for (int i = 0; !eval && i < task.player_size(); ++i) {
      parts.players.push_back(
          {made->collect_modes_[static_cast<size_t>(i)], task.player(i).update_policy()});
    }
    parts.link = link;
    parts.episodes_per_env =
        eval ? EvaluationEpisodesPerEnv(config.env()) : config.env().collector_episode_num();
    made->sequences_ = ItemSequencesOf(config.policy().other().replay_buffer());
    deps.name = eval ? "evaluator" : "collector";
    DING_ASSIGN_OR_RETURN(made->collector_,
                          create_parallel_collector(config.policy().collect().parallel_collector(),
                                                    parameters, parts, deps));
    return made;
  }

  BaseParallelCollector* collector() override { return collector_.get(); }
  ItemSequences sequences() const override { return sequences_; }

 private:
  ItemSequences sequences_;
  std::unique_ptr<EnvManager> env_;
  // One for each player.
  std::vector<std::unique_ptr<Policy>> policies_;
  std::vector<std::unique_ptr<RandomStart>> random_starts_;  // of a task that begins at random
  std::vector<CollectMode*> collect_modes_;
  std::unique_ptr<BaseParallelCollector> collector_;
};

class ConfiguredLearner : public TaskLearner {
 public:
  static absl::StatusOr<std::unique_ptr<TaskLearner>> Create(const ExperimentConfig& config,
                                                             const LearnerTask& task,
                                                             GroupMember* group,
                                                             ComponentDeps deps) {
    auto made = std::make_unique<ConfiguredLearner>();
    DING_ASSIGN_OR_RETURN(const EnvSpec env, SpecOfEnv(config, deps.clock));
    PolicyModes modes;
    modes.collect = modes.eval = false;
    PolicyContext context = MakePolicyContext(config, env, modes);
    context.reducer = group;
    DING_ASSIGN_OR_RETURN(made->policy_, create_policy(MakePolicyConfig(config), context));
    PolicyModes collects;
    collects.learn = collects.eval = collects.command = false;
    DING_ASSIGN_OR_RETURN(
        const std::unique_ptr<Policy> collector,
        create_policy(MakePolicyConfig(config), MakePolicyContext(config, env, collects)));
    DING_ASSIGN_OR_RETURN(made->collected_, LayoutOfCollected(env, collector->collect_mode()));
    deps.name = "learner";
    deps.seed = config.seed();
    LearnerConfig learner_config = config.policy().learn().learner();
    const std::string resume = JoinPath(JoinPath(deps.exp_dir, "ckpt"), kResumeCheckpoint);
    LearnerHooksConfig& hooks = *learner_config.mutable_hook();
    if (hooks.save_ckpt_seconds() == 0 && config.resume().period_seconds() > 0) {
      hooks.set_save_ckpt_seconds(std::min(kMaxResumeSeconds, config.resume().period_seconds()));
    }
    made->resumable_ = hooks.save_ckpt_seconds() > 0;
    if (task.resume()) {
      // Removes what an earlier learner has left half written.
      DING_RETURN_IF_ERROR(CleanUpCheckpoints(deps.exp_dir, std::numeric_limits<int64_t>::max()));
      if (PathExists(resume)) hooks.set_load_ckpt_before_run(resume);
    }
    DING_ASSIGN_OR_RETURN(made->learner_,
                          create_learner(learner_config, made->policy_->learn_mode(), deps, group));
    made->learner_->set_checkpoint_fn(
        [learner = made->learner_.get(), config, name = env.name](absl::string_view checkpoint) {
          return Save(config, name, *learner, checkpoint);
        });
    return made;
  }

  ILearner* learner() override { return learner_.get(); }
  CollectedLayout collected() const override { return collected_; }
  absl::Status SaveProgress() override {
    if (!resumable_ || learner_->train_iter() == 0) return absl::OkStatus();
    return CallUser("the learner", [&] { return learner_->SaveCheckpoint(kResumeCheckpoint); });
  }
  NamedValues LearnSettings(int64_t train_iter, int64_t envstep) override {
    if (policy_->command_mode() == nullptr) return {};
    return policy_->command_mode()->GetSettingLearn(
        {{"learner_step", static_cast<double>(train_iter)},
         {"envstep", static_cast<double>(std::max<int64_t>(0, envstep))}});
  }

 private:
  static absl::Status Save(const ExperimentConfig& config, const std::string& env_name,
                           const ILearner& learner, absl::string_view name) {
    const std::string path = learner.CheckpointPath(name);
    DING_RETURN_IF_ERROR(CreateDirectories(JoinPath(learner.deps().exp_dir, "ckpt")));
    // A learner that was stopped, and then replaced, must not undo what its successor has learned.
    if (name == kResumeCheckpoint && SavedIteration(path) > learner.train_iter()) {
      return absl::OkStatus();
    }
    CheckpointInfo info = LearnerCheckpointInfo(learner);
    DescribeRun(config, env_name, &info);
    return WriteCheckpoint(path, info, LearnerComponents(learner));
  }

  // The iteration of the checkpoint at `path`; -1 if there is none that can be read.
  static int64_t SavedIteration(const std::string& path) {
    if (!PathExists(path)) return -1;
    const absl::StatusOr<CheckpointReader> checkpoint = OpenTrainCheckpoint(path);
    int64_t iteration = -1;
    if (!checkpoint.ok()) return iteration;
    const auto field = checkpoint->info().fields.find("train_iter");
    const bool found =
        field != checkpoint->info().fields.end() && absl::SimpleAtoi(field->second, &iteration);
    return found ? iteration : -1;
  }

  std::unique_ptr<Policy> policy_;
  std::unique_ptr<ILearner> learner_;
  CollectedLayout collected_;
  bool resumable_ = false;
};

// The type of all-reduce that the learners of a group use.
constexpr char kAllReduceType[] = "gloo";

}  // namespace

absl::Status CheckCanGroupLearners(const ExperimentConfig& config) {
  if (config.policy().learn().learner_num() == 1) return absl::OkStatus();
  const absl::Status found = AllReduceRegistry().Find(kAllReduceType).status();
  if (found.ok()) return found;
  return absl::FailedPreconditionError(
      absl::StrCat("policy.learn.learner_num is ", config.policy().learn().learner_num(),
                   ", but this program has no all-reduce: expected 1, or //worker:parallel_torch"));
}

std::vector<std::string> FindParallelProblems(const ExperimentConfig& config) {
  std::vector<std::string> problems;
  const PolicySection& policy = config.policy();
  const auto at_least = [&](absl::string_view path, int64_t found, int64_t least) {
    if (found >= least) return;
    problems.push_back(absl::StrCat(path, " is ", found, ", expected ", least, " or more"));
  };
  const auto above_zero = [&](absl::string_view path, double found) {
    if (found > 0) return;
    problems.push_back(absl::StrCat(path, " is ", found, ", expected above 0"));
  };
  at_least("env.collector_episode_num", config.env().collector_episode_num(), 1);
  at_least("env.evaluator_episode_num", config.env().evaluator_episode_num(), 1);
  at_least("policy.collect.collector_num", policy.collect().collector_num(), 1);
  at_least("policy.learn.send_policy_freq", policy.learn().send_policy_freq(), 1);
  at_least("policy.learn.prefetch_batches", policy.learn().prefetch_batches(), 1);
  at_least("policy.learn.loader_threads", policy.learn().loader_threads(), 1);
  above_zero("policy.learn.data_timeout", policy.learn().data_timeout());
  at_least("policy.learn.learner_num", policy.learn().learner_num(), 1);
  at_least("policy.learn.batch_size", policy.learn().batch_size(), policy.learn().learner_num());
  above_zero("policy.learn.all_reduce_timeout", policy.learn().all_reduce_timeout());
  AppendReplayRatioProblems(policy.other().replay_buffer(), policy.learn().batch_size(), &problems);
  const double lease = config.system().coordinator().lease_seconds();
  if (!(lease >= kMinLeaseSeconds)) {
    problems.push_back(absl::StrCat("system.coordinator.lease_seconds is ", lease, ", expected ",
                                    kMinLeaseSeconds, " or more"));
  }
  const double rejoin = config.system().coordinator().rejoin_seconds();
  if (!(rejoin >= 0)) {
    problems.push_back(
        absl::StrCat("system.coordinator.rejoin_seconds is ", rejoin, ", expected 0 or more"));
  }
  AppendItemBufferProblems(config, PlaysGames(config), &problems);
  for (std::string& problem : FindTypeProblems(config)) problems.push_back(std::move(problem));
  if (absl::StartsWith(config.system().store_url(), "mem:")) {
    problems.push_back(absl::StrCat("system.store_url is '", config.system().store_url(),
                                    "', memory of one process, expected what all of them can read: "
                                    "'file:/folder'"));
  }
  if (config.system().coordinator().journal() == JOURNAL_IN_STORE &&
      config.system().store_url().empty()) {
    problems.push_back(
        "system.coordinator.journal is JOURNAL_IN_STORE, but system.store_url is not set: that is "
        "memory of this machine, which goes with the run; expected 'redis:HOST:PORT/PREFIX' or "
        "'file:/folder'");
  }
  const bool redis = absl::StartsWith(config.system().store_url(), "redis:");
  const auto fits_store = [&](absl::string_view path, const std::string& type) {
    if ((type == kRedisType) == redis) return;
    problems.push_back(absl::StrCat(path, " is '", type, "' and system.store_url '",
                                    config.system().store_url(), "', expected '", kRedisType,
                                    "' with a store of 'redis:HOST:PORT', and only with one"));
  };
  fits_store("system.comm_collector_type", config.system().comm_collector_type());
  fits_store("system.comm_learner_type", config.system().comm_learner_type());
  if (IsSupervised(config)) {
    problems.push_back(
        "data_set.path is set: a parallel run learns from the rows that it collects");
  }
  const RunKind kind = PlaysGames(config) ? RunKind::kLeague : RunKind::kParallel;
  for (std::string& problem : FindUnusedFields(config, kind)) {
    problems.push_back(std::move(problem));
  }
  return problems;
}

std::string ConfigDigest(const ExperimentConfig& config) {
  ExperimentConfig same = config;
  same.clear_exp_name();
  const std::string text = PrintTextConfig(same);
  return absl::StrCat(absl::Hex(Crc32c(text), absl::kZeroPad8), "-", text.size());
}

TaskCollectorFactory MakeTaskCollectorFactory(const ExperimentConfig& config,
                                              const ComponentDeps& deps) {
  return [config, deps](const CollectorTask& task, CollectorLink* link) {
    return ConfiguredCollector::Create(config, task, link, deps);
  };
}

TaskLearnerFactory MakeTaskLearnerFactory(const ExperimentConfig& config,
                                          const ComponentDeps& deps) {
  return [config, deps](const LearnerTask& task, GroupMember* group) {
    return ConfiguredLearner::Create(config, task, group, deps);
  };
}

CommLearnerOptions MakeCommLearnerOptions(const ExperimentConfig& config) {
  const PolicySection& policy = config.policy();
  CommLearnerOptions options;
  options.batch_size = policy.learn().batch_size();
  options.nstep = policy.nstep();
  options.gamma = policy.discount_factor();
  options.sequences = ItemSequencesOf(policy.other().replay_buffer());
  options.prefetch_batches = policy.learn().prefetch_batches();
  options.loader_threads = policy.learn().loader_threads();
  options.send_policy_freq = policy.learn().send_policy_freq();
  options.send_info_freq = policy.priority() ? 1 : kSendInfoFreq;
  options.data_timeout = absl::Seconds(policy.learn().data_timeout());
  const absl::StatusOr<AllReduceCreator> connect = AllReduceRegistry().Find(kAllReduceType);
  if (connect.ok()) options.connect_group = *connect;
  options.group_timeout = absl::Seconds(policy.learn().all_reduce_timeout());
  return options;
}

absl::StatusOr<CoordinatorParts> MakeCoordinator(const ExperimentConfig& config,
                                                 const std::string& run, const ComponentDeps& deps,
                                                 Store* store, CoordinatorSender* sender,
                                                 Journal* journal, bool goes_on_after_stop) {
  CoordinatorParts made;
  DING_ASSIGN_OR_RETURN(const EnvSpec env, SpecOfEnv(config, deps.clock));
  DING_ASSIGN_OR_RETURN(const ReturnBounds returns, CheckEvaluatorEnvs(config, env, deps.clock));
  // The collect and learn modes are only asked for their attributes.
  PolicyModes modes;
  modes.eval = false;
  DING_ASSIGN_OR_RETURN(
      made.policy, create_policy(MakePolicyConfig(config), MakePolicyContext(config, env, modes)));
  if (made.policy->collect_mode()->attributes().on_policy) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy.type '", config.policy().type(),
                     "' is on-policy: parallel runs learn from a replay buffer"));
  }
  const BufferConfig& rows_config = config.policy().other().replay_buffer();
  const ItemSequences sequences = ItemSequencesOf(rows_config);
  if (made.policy->learn_mode() != nullptr) {
    const std::vector<std::string> problems = FindSequenceProblems(
        config, made.policy->learn_mode()->attributes(), HasItemsOfSequences(rows_config));
    if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
  }
  if (config.policy().random_collect_size() > 0) {
    DING_RETURN_IF_ERROR(RandomStart::Create(made.policy->collect_mode(), env, config.seed(), [] {
                           return true;
                         }).status());
  }
  CommanderDeps commander_deps(deps);
  commander_deps.name = "commander";
  commander_deps.policy = made.policy->command_mode();
  commander_deps.stop_value = config.env().stop_value();
  DING_ASSIGN_OR_RETURN(commander_deps.first_env_step, FirstEnvStep(config, journal));
  if (PlaysGames(config)) commander_deps.eval_opponents = OpponentsOf(config);
  Coordinator::Parts parts;
  DING_ASSIGN_OR_RETURN(parts.commander, create_parallel_commander(
                                             config.policy().other().commander(), commander_deps));
  // Rows of the buffer are items, so returns are computed where the data are read.
  BufferConfig buffer_config = ItemBufferConfig(rows_config);
  buffer_config.set_nstep(1);
  buffer_config.clear_replay_ratio();  // which the coordinator obeys
  parts.make_buffer = [buffer_config, deps](const std::string& buffer_id, OnRemoved on_removed) {
    BufferDeps buffer_deps(deps);
    buffer_deps.name = buffer_id;
    buffer_deps.on_removed = std::move(on_removed);
    return create_buffer(buffer_config, buffer_deps);
  };
  parts.delete_key = [store](const std::string& key) { return store->Delete(key); };
  parts.sender = sender;
  parts.journal = journal;
  DING_ASSIGN_OR_RETURN(const CollectedLayout collected,
                        LayoutOfCollected(env, made.policy->collect_mode()));
  if (collected.rows != nullptr) {
    DING_ASSIGN_OR_RETURN(parts.items, ItemsOf(*collected.rows));
  }
  parts.list_keys = [store](const std::string& prefix) { return store->List(prefix); };

  const CoordinatorConfig& section = config.system().coordinator();
  Coordinator::Options options;
  options.run = run;
  ReadCoordinatorOptions(section, &options);
  options.wanted_collectors = config.policy().collect().collector_num();
  options.max_env_step = config.max_env_step();
  options.max_train_iter = config.max_train_iter();
  options.max_time = absl::Seconds(config.system().max_seconds());
  options.goes_on_after_stop = goes_on_after_stop;
  options.first_env_step = commander_deps.first_env_step;
  options.replay_ratio = ReadReplayRatio(rows_config, config.policy().learn().batch_size());
  options.random_collect_size =
      (config.policy().random_collect_size() + sequences.period() - 1) / sequences.period();
  options.sequences = sequences;
  options.min_return = returns.low;
  options.max_return = returns.high;
  ComponentDeps coordinator_deps = deps;
  coordinator_deps.name = "coordinator";
  DING_ASSIGN_OR_RETURN(made.coordinator,
                        Coordinator::Create(options, std::move(parts), coordinator_deps));
  return made;
}

}  // namespace ding
