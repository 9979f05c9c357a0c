#include "ding_worker/worker/coordination/parallel_setup.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/collector/parallel/random_start.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/coordinator/coordinator_config.h"
#include "ding_worker/coordinator/state/learning_rounds.h"
#include "ding_worker/data/items.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/setup/data_set.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/setup/setup_problems.h"
#include "ding_worker/worker/setup/supervised_setup.h"
#include "ding_worker/worker/tasks/data_set_learning.h"
#include "ding_worker/worker/tasks/on_policy_rounds.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/tasks/run_history.h"
#include "ding_worker/worker/tasks/task_config.h"

namespace ding {
namespace {

// OK if the opponent, which has all modes, can learn in this run.
absl::Status CheckLearningOpponent(const ExperimentConfig& config, bool on_policy, Policy* opponent,
                                   const Clock* clock) {
  DING_ASSIGN_OR_RETURN(const ExperimentConfig own, OpponentConfig(config));
  DING_RETURN_IF_ERROR(CheckOpponentLearns(opponent, own, on_policy));
  DING_ASSIGN_OR_RETURN(const EnvSpec player,
                        SpecOfEnv(config, clock, {EnvPlace::kCoordinator, 0}, /*player=*/1));
  DING_RETURN_IF_ERROR(ProblemsToStatus(FindSequenceProblems(
      own, opponent->learn_mode()->attributes(),
      HasItemsOfSequences(own.policy().other().replay_buffer()), player.max_episode_steps)));
  if (own.policy().random_collect_size() == 0) return absl::OkStatus();
  return RandomStart::Create(opponent->collect_mode(), player, own.seed(), [] { return true; })
      .status();
}

}  // namespace

std::string ConfigDigest(const ExperimentConfig& config) {
  ExperimentConfig same = config;
  same.clear_exp_name();
  const std::string text = PrintTextConfig(same);
  return absl::StrCat(absl::Hex(Crc32c(text), absl::kZeroPad8), "-", text.size());
}

absl::StatusOr<CoordinatorParts> MakeCoordinator(const ExperimentConfig& config,
                                                 const std::string& run, const ComponentDeps& deps,
                                                 Store* store, CoordinatorSender* sender,
                                                 Journal* journal, bool goes_on_after_stop) {
  CoordinatorParts made;
  const bool supervised = IsSupervised(config);
  EnvSpec env;
  DataSet data;  // The learners have it; here it is only checked.
  if (supervised) {
    DING_ASSIGN_OR_RETURN(env,
                          SpecOfDataSetRun(config, deps.clock, {EnvPlace::kCoordinator, 0}, &data));
    DING_LOG(INFO) << "data set " << config.data_set().path() << ": " << data.description;
  } else {
    DING_ASSIGN_OR_RETURN(env, SpecOfEnv(config, deps.clock));
    DING_ASSIGN_OR_RETURN(made.opponent, MakeOpponent(config, deps.clock));
  }
  ReturnBounds returns;
  if (Evaluates(config)) {
    DING_ASSIGN_OR_RETURN(returns, CheckEvaluatorEnvs(config, env, deps.clock));
  }
  // The collect and learn modes are only asked for their attributes.
  PolicyModes modes;
  modes.eval = false;
  modes.collect = !supervised;
  DING_ASSIGN_OR_RETURN(made.policy, MakePolicy(config, env, modes));
  DING_RETURN_IF_ERROR(CheckLearnsFromData(config, made.policy->learn_mode()));
  if (supervised) {
    DING_RETURN_IF_ERROR(UseTransitions(config, *made.policy->learn_mode(), &data));
  }
  // A policy that only collects sends the statistics of normalization with its rows, so that they
  // have another layout.
  std::unique_ptr<Policy> collector;
  CollectAttributes attributes;
  if (!supervised) {
    DING_ASSIGN_OR_RETURN(collector, MakePolicy(config, env, CollectModeOnly()));
    if (collector->collect_mode() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "policy '", config.policy().type(),
          "' makes no collect mode for the process of a collector, which has no learn mode "
          "(PolicyContext::modes): it cannot run in parallel, expected a policy that makes each "
          "mode that it is asked for without the others"));
    }
    attributes = collector->collect_mode()->attributes();
  }
  DING_RETURN_IF_ERROR(
      ProblemsToStatus(FindPolicyProblems(config, env, attributes, made.policy->learn_mode())));
  const bool on_policy = attributes.on_policy;
  const BufferConfig& rows_config = config.policy().other().replay_buffer();
  const ItemSequences sequences =
      on_policy ? ItemSequencesOfRounds(config) : ItemSequencesOf(rows_config);
  if (OpponentLearns(config)) {
    DING_RETURN_IF_ERROR(Annotate(
        CheckLearningOpponent(config, on_policy, made.opponent.get(), deps.clock), "opponent"));
  }
  if (config.policy().random_collect_size() > 0) {
    DING_RETURN_IF_ERROR(RandomStart::Create(made.policy->collect_mode(), env, config.seed(), [] {
                           return true;
                         }).status());
  }
  CommanderDeps commander_deps(deps);
  commander_deps.name = "commander";
  commander_deps.policy = made.policy->command_mode();
  commander_deps.has_opponent = OpponentLearns(config);
  if (OpponentLearns(config)) commander_deps.opponent = made.opponent->command_mode();
  commander_deps.stop_value = config.env().stop_value();
  commander_deps.best_by = config.env().best_by();
  commander_deps.confirms = config.env().n_confirm_episode() > 0;
  commander_deps.collects = !supervised;
  commander_deps.lockstep = config.system().lockstep();
  commander_deps.evaluates = Evaluates(config) && !config.system().lockstep();
  commander_deps.collect_print_freq = config.policy().collect().collector().collect_print_freq();
  DING_ASSIGN_OR_RETURN(commander_deps.first_env_step, FirstEnvStep(config, journal));
  if (PlaysGames(config)) commander_deps.eval_opponents = OpponentsOf(config);
  Coordinator::Parts parts;
  DING_ASSIGN_OR_RETURN(parts.commander, create_parallel_commander(
                                             config.policy().other().commander(), commander_deps));
  StopperDeps stopper_deps;
  stopper_deps.has_evaluations = Evaluates(config);
  stopper_deps.max_return = returns.high;
  if (config.system().max_seconds() > 0) {
    stopper_deps.max_time = absl::Seconds(config.system().max_seconds());
    const CommanderConfig& commander = config.policy().other().commander();
    if (!supervised && commander.learner_task_space() == 1 && commander.eval_interval() > 0) {
      // Evaluations of a policy are at least so far apart; one more comes at the beginning, and one
      // at the end.
      stopper_deps.max_evaluations =
          static_cast<int64_t>(
              std::min(config.system().max_seconds() / commander.eval_interval(), 1e15)) +
          2;
    }
  }
  DING_ASSIGN_OR_RETURN(parts.stoppers, StopperList::Create(config.stopper(), stopper_deps));
  std::optional<LearningRounds> rounds;
  if (on_policy) rounds = RoundsOf(config);
  parts.make_buffer = [rounds, deps, rows_config, config](
                          const std::string& buffer_id, absl::Span<const std::string> settings,
                          OnRemoved on_removed) -> absl::StatusOr<std::unique_ptr<IBuffer>> {
    BufferDeps buffer_deps(deps);
    buffer_deps.name = buffer_id;
    buffer_deps.on_removed = std::move(on_removed);
    if (rounds.has_value()) return MakeRoundBuffer(*rounds, buffer_deps);
    if (settings.empty()) return create_buffer(CoordinatorBufferConfig(rows_config), buffer_deps);
    LearnerTask task;
    task.set_task_id(buffer_id);
    task.mutable_setting()->Add(settings.begin(), settings.end());
    DING_ASSIGN_OR_RETURN(const ExperimentConfig own, ConfigOfTask(config, task));
    return create_buffer(CoordinatorBufferConfig(own.policy().other().replay_buffer()),
                         buffer_deps);
  };
  parts.delete_key = [store](const std::string& key) { return store->Delete(key); };
  parts.sender = sender;
  parts.journal = journal;
  CollectedLayout collected;
  if (!supervised) {
    DING_ASSIGN_OR_RETURN(collected, LayoutOfCollected(env, collector->collect_mode()));
  }
  // The two have other rows, perhaps.
  if (collected.rows != nullptr && !OpponentLearns(config)) {
    DING_ASSIGN_OR_RETURN(parts.items, ItemsOf(*collected.rows));
  }
  parts.check_settings = [settings = std::make_shared<TaskSettings>(
                              config, env, collected.rows, deps.clock)](const StartTask& task) {
    return settings->Check(task);
  };
  parts.list_keys = [store](const std::string& prefix) { return store->List(prefix); };

  const CoordinatorConfig& section = config.system().coordinator();
  Coordinator::Options options;
  options.run = run;
  ReadCoordinatorOptions(section, &options);
  options.wanted_collectors = CollectorsOf(config);
  options.max_env_step = config.max_env_step();
  options.max_train_iter = config.max_train_iter();
  options.has_opponent = OpponentLearns(config);
  options.max_time = absl::Seconds(config.system().max_seconds());
  options.goes_on_after_stop = goes_on_after_stop;
  options.first_env_step = commander_deps.first_env_step;
  if (journal != nullptr) {
    DING_ASSIGN_OR_RETURN(options.saved_policies, CheckHistory(deps.exp_dir, run, *journal));
  }
  options.replay_ratio = ReadReplayRatio(rows_config, config.policy().learn().batch_size());
  if (config.system().lockstep()) {
    options.lockstep_tasks = config.policy().other().commander().collector_task_space();
    options.collector_task_timeout = absl::InfiniteDuration();
  }
  // In samples of unroll_len rows, as n_sample.
  const int64_t random_rows =
      config.policy().random_collect_size() * config.policy().collect().unroll_len();
  options.random_collect_size = (random_rows + sequences.period() - 1) / sequences.period();
  options.sequences = sequences;
  options.rounds = rounds;
  options.min_return = returns.low;
  options.max_return = returns.high;
  ComponentDeps coordinator_deps = deps;
  coordinator_deps.name = "coordinator";
  DING_ASSIGN_OR_RETURN(made.coordinator,
                        Coordinator::Create(options, std::move(parts), coordinator_deps));
  return made;
}

}  // namespace ding
