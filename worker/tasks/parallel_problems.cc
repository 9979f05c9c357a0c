#include "ding_worker/worker/tasks/parallel_problems.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/coordinator/coordinator_config.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/setup/setup_problems.h"
#include "ding_worker/worker/tasks/on_policy_rounds.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "ding_worker/worker/tasks/parallel_envs.h"

namespace ding {
namespace {

// Appends the problems of a run that is recorded.
void AppendRecordingProblems(const ExperimentConfig& config, std::vector<std::string>* problems) {
  const int64_t bytes = config.system().record_bytes();
  if (bytes <= 0) return;
  if (config.policy().learn().learner_num() > 1) {
    problems->push_back(absl::StrCat(
        "system.record_bytes is ", bytes,
        ", but policy.learn.learner_num is above 1: expected 0, or one learner, because what "
        "several learners tell each other is not recorded"));
  }
  if (config.policy().other().commander().learner_task_space() > 1) {
    problems->push_back(absl::StrCat(
        "system.record_bytes is ", bytes,
        ", but policy.other.commander.learner_task_space is above 1: expected 0, or one learning "
        "task"));
  }
}

// Appends what a run whose files are in the store cannot have.
void AppendRunFilesProblems(const ExperimentConfig& config, std::vector<std::string>* problems) {
  if (config.system().store_url().empty()) {
    problems->push_back(
        "system.run_files is STORE, but system.store_url is not set: that is memory of this "
        "machine, which others do not see; expected 'redis:HOST:PORT/PREFIX', or 'file:/folder' "
        "that all machines see");
  }
  if (config.system().record_bytes() > 0) {
    problems->push_back(absl::StrCat(
        "system.record_bytes is ", config.system().record_bytes(),
        " beside system.run_files STORE, expected 0: a recording is too large for the store"));
  }
  for (const SinkConfig& sink : config.metrics().sink()) {
    if (sink.type() != "mlflow") continue;
    problems->push_back(
        "metrics.sink has the type 'mlflow' beside system.run_files STORE, expected none: it "
        "writes beside the run's folder, where nothing is sent from");
  }
}

// Appends the settings by which arrival or time would decide what a run in lockstep learns.
void AppendLockstepProblems(const ExperimentConfig& config, std::vector<std::string>* problems) {
  const auto expect = [problems](bool holds, absl::string_view found, absl::string_view expected) {
    if (holds) return;
    problems->push_back(
        absl::StrCat("system.lockstep is true, but ", found, ": expected ", expected));
  };
  const PolicySection& policy = config.policy();
  const CommanderConfig& commander = policy.other().commander();
  const absl::StatusOr<CommanderDescriptor> type = get_parallel_commander_cls(commander);
  expect(!type.ok() || type->for_lockstep,  // AppendTypeProblems() reports an unknown type.
         absl::StrCat("policy.other.commander.type is '", commander.type(), "'"),
         "one that gives tasks in rounds, such as 'solo'");
  expect(commander.has_collector_task_space(),
         "policy.other.commander.collector_task_space is not set",
         "the number of tasks of a round, at least as many as the most collectors that will share "
         "them");
  expect(commander.learner_task_space() == 1,
         "policy.other.commander.learner_task_space is above 1", "1");
  expect(policy.learn().learner_num() == 1, "policy.learn.learner_num is above 1", "1");
  expect(config.max_train_iter() > 0 || config.max_env_step() > 0,
         "neither max_train_iter nor max_env_step is set", "one of them, which ends the run");
  expect(config.system().max_seconds() <= 0, "system.max_seconds is set", "0");
  expect(config.env().stop_value() >= EnvSection::default_instance().stop_value(),
         absl::StrCat("env.stop_value is ", config.env().stop_value()),
         "1e10, because nothing is evaluated: tools/evaluate does it when the run is over");
  expect(config.stopper_size() == 0, "there is a stopper", "none");
  expect(policy.learn().learner().train_iterations() ==
             LearnerConfig::default_instance().train_iterations(),
         "policy.learn.learner.train_iterations is set", "max_train_iter in its place");
  expect(policy.learn().max_data_age() == LearnSection::default_instance().max_data_age(),
         "policy.learn.max_data_age is set", "none, because collecting and learning take turns");
  expect(policy.random_collect_size() == 0, "policy.random_collect_size is above 0", "0");
  const ReplayRatioConfig& ratio = policy.other().replay_buffer().replay_ratio();
  const bool no_ratio = ratio.min() == 0 && std::isinf(ratio.max()) && ratio.min_size() == 0;
  expect(no_ratio, "policy.other.replay_buffer.replay_ratio is set",
         "{}: send_policy_freq batches are drawn for each round");
  AdvancedBufferConfig advanced;
  expect(!policy.other().replay_buffer().params().UnpackTo(&advanced) ||
             !advanced.thruput_controller().has_push_sample_rate_limit(),
         "thruput_controller.push_sample_rate_limit of policy.other.replay_buffer is set",
         "none, because it changes with time");
  const EnvManagerConfig& manager = config.env().manager();
  const bool waits_for_all =
      manager.has_wait_num() ? manager.wait_num() == 0 : manager.type() != "async_subprocess";
  expect(waits_for_all, "a step of env.manager does not wait for all envs", "wait_num: 0");
}

// Appends the problems of a run in which an opponent learns beside the policy.
void AppendOpponentProblems(const ExperimentConfig& config, std::vector<std::string>* problems) {
  const auto expect = [problems](bool holds, absl::string_view found, absl::string_view expected) {
    if (holds) return;
    problems->push_back(
        absl::StrCat("opponent.learns is true, but ", found, ": expected ", expected));
  };
  const PolicySection& policy = config.policy();
  const CommanderConfig& commander = policy.other().commander();
  const absl::StatusOr<CommanderDescriptor> type = get_parallel_commander_cls(commander);
  expect(!type.ok() || type->for_opponent,  // FindTypeProblems() reports an unknown type.
         absl::StrCat("policy.other.commander.type is '", commander.type(), "'"),
         "one that gives tasks for both, such as 'solo'");
  expect(commander.learner_task_space() == 1,
         "policy.other.commander.learner_task_space is above 1",
         "1: the opponent has a learning task of its own");
  expect(policy.learn().learner_num() == 1, "policy.learn.learner_num is above 1",
         "1: each of the two has one learner");
  expect(!config.system().lockstep(), "system.lockstep is, too",
         "false: it is for one policy that learns");
  expect(config.system().record_bytes() == 0, "system.record_bytes is set",
         "0: the learning of one policy is recorded");
}

// Appends the problems of a run with a data set, in which nothing is collected.
void AppendDataSetProblems(const ExperimentConfig& config, std::vector<std::string>* problems) {
  const absl::StatusOr<CommanderDescriptor> commander =
      get_parallel_commander_cls(config.policy().other().commander());
  if (commander.ok() && !commander->for_data_sets) {
    problems->push_back(
        absl::StrCat("policy.other.commander.type is '", config.policy().other().commander().type(),
                     "' beside data_set.path, expected one that does not collect, such as 'solo'"));
  }
  if (config.env().has_evaluator_type() && config.env().type().empty()) {
    problems->push_back(
        absl::StrCat("env.evaluator_type is '", config.env().evaluator_type(),
                     "', but env.type is not set, expected it: it says what an env of the data "
                     "set's observations and actions is like"));
  }
}

// Appends the problems of the types that the config chooses by name: commander, collectors, metric
// sinks, and the processes of collectors and learners.
void AppendTypeProblems(const ExperimentConfig& config, std::vector<std::string>* problems) {
  const auto report = [&](absl::string_view path, const absl::Status& status) {
    if (!status.ok()) problems->push_back(absl::StrCat(path, ": ", status.message()));
  };
  // `descriptor` is what a registry has found; `type_path` and `section` are the paths of the type
  // and of the message around its parameters.
  const auto check = [&](const auto& descriptor, absl::string_view type_path,
                         absl::string_view section, const GivenParams& given) {
    report(type_path, descriptor.status());
    if (descriptor.ok()) report(section, CheckParams(descriptor->check_params, given));
  };
  const SystemSection& system = config.system();
  check(CommCollectorRegistry().Find(system.comm_collector_type()), "system.comm_collector_type",
        "system", CommCollectorConfig(config));
  check(CommLearnerRegistry().Find(system.comm_learner_type()), "system.comm_learner_type",
        "system", CommLearnerConfig(config));
  const CommanderConfig& commander_config = config.policy().other().commander();
  const absl::StatusOr<CommanderDescriptor> commander =
      get_parallel_commander_cls(commander_config);
  check(commander, "policy.other.commander.type", "policy.other.commander", commander_config);
  const ParallelCollectorConfig collector_config = MakeCollectorConfig(config);
  const absl::StatusOr<ParallelCollectorDescriptor> collector =
      get_parallel_collector_cls(collector_config);
  check(collector, "policy.collect.parallel_collector.type", "policy.collect.parallel_collector",
        collector_config);
  if (!collector_config.reward_shaping().empty()) {
    report("policy.collect.collector.params",
           FindRewardShaping(collector_config.reward_shaping()).status());
    if (collector.ok() && collector->plays_games) {
      problems->push_back(absl::StrCat(
          "policy.collect.collector.params.reward_shaping is '", collector_config.reward_shaping(),
          "' beside collector '", collector_config.type(),
          "', which plays games, expected none: it is for envs with one player"));
    }
  }
  for (int i = 0; i < config.metrics().sink_size(); ++i) {
    const SinkConfig& sink = config.metrics().sink(i);
    const std::string section = absl::StrCat("metrics.sink[", i, "]");
    check(SinkRegistry().Find(sink.type()), absl::StrCat(section, ".type"), section, sink);
  }
  if (commander.ok() && collector.ok() && commander->plays_games != collector->plays_games) {
    problems->push_back(absl::StrCat(
        "policy.collect.parallel_collector.type is '", collector_config.type(),
        "' beside commander '", config.policy().other().commander().type(), "', expected one for ",
        commander->plays_games ? "games: 'marine'" : "envs for one: 'zergling'"));
  }
}

}  // namespace

std::vector<std::string> FindParallelProblems(const ExperimentConfig& config, bool kind_is_known) {
  std::vector<std::string> problems;
  const PolicySection& policy = config.policy();
  if (policy.learn().batch_size() < policy.learn().learner_num()) {
    problems.push_back(absl::StrCat("policy.learn.batch_size is ", policy.learn().batch_size(),
                                    ", expected at least ", policy.learn().learner_num(),
                                    ", one row for each of policy.learn.learner_num"));
  }
  const int tasks = policy.other().commander().learner_task_space();
  if (tasks > 1 && policy.learn().learner_num() > 1) {
    problems.push_back(absl::StrCat(
        "policy.learn.learner_num is ", policy.learn().learner_num(),
        " beside policy.other.commander.learner_task_space ", tasks,
        ", expected 1 in one of them: each of several learning tasks has one learner"));
  }
  AppendReplayRatioProblems(policy.other().replay_buffer(), policy.learn().batch_size(), &problems);
  const int64_t task_episodes =
      config.env().collector_env_num() * config.env().collector_episode_num();
  if (policy.collect().has_n_episode() && ShareOfCollector(config) > task_episodes) {
    problems.push_back(absl::StrCat(
        "policy.collect.n_episode is ", policy.collect().n_episode(), ", ",
        ShareOfCollector(config), " for each collector, expected at most ", task_episodes,
        " for each: a collecting task has that many episodes (env.collector_env_num * "
        "env.collector_episode_num), and hands over what is left at its end"));
  }
  AppendCollectProblems(config, &problems);
  if (policy.collect().has_n_episode() && policy.random_collect_size() > 0 &&
      !ItemSequencesOf(policy.other().replay_buffer()).whole_episodes) {
    problems.push_back(absl::StrCat(
        "policy.random_collect_size is ", policy.random_collect_size(),
        ", which counts episodes beside policy.collect.n_episode, but a buffer of type '",
        policy.other().replay_buffer().type(),
        "' counts rows in a parallel run: expected 0, or a buffer of type 'episode'"));
  }
  AppendRecordingProblems(config, &problems);
  if (FilesAreInStore(config)) AppendRunFilesProblems(config, &problems);
  if (OpponentLearns(config) && !PlaysGames(config)) AppendOpponentProblems(config, &problems);
  if (config.system().lockstep()) AppendLockstepProblems(config, &problems);
  AppendItemBufferProblems(config, PlaysGames(config), &problems);
  AppendTypeProblems(config, &problems);
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
  const bool redis = absl::StartsWith(config.system().store_url(), "redis:") ||
                     absl::StartsWith(config.system().store_url(), "rediss:");
  if (redis && JournalIsInStore(config) &&
      config.system().coordinator().journal_sync() != CoordinatorConfig::PERIODIC) {
    problems.push_back(
        "system.coordinator.journal_sync is set, but the journal is in Redis, whose `appendfsync` "
        "decides that: expected PERIODIC, the default, or the journal in JOURNAL_IN_FOLDER");
  }
  // The default is a folder in the memory of this machine.
  const std::string& url = config.system().store_url();
  const std::string scheme = redis ? "redis" : url.empty() ? "file" : url.substr(0, url.find(':'));
  const auto fits_store = [&](absl::string_view path, const std::string& type, const auto& types) {
    const auto found = types.Find(type);
    if (!found.ok() || found->store_scheme.empty() || found->store_scheme == scheme) return;
    problems.push_back(absl::StrCat(path, " is '", type, "', but system.store_url is '", url,
                                    "': expected a store of '", found->store_scheme,
                                    ":...', or another type"));
  };
  fits_store("system.comm_collector_type", config.system().comm_collector_type(),
             CommCollectorRegistry());
  fits_store("system.comm_learner_type", config.system().comm_learner_type(),
             CommLearnerRegistry());
  if (IsSupervised(config)) AppendDataSetProblems(config, &problems);
  std::vector<std::string> unused;
  if (IsSupervised(config)) {
    unused = FindUnusedFields(config, RunKind::kSupervisedParallel);
  } else if (PlaysGames(config)) {
    unused = FindUnusedFields(config, RunKind::kLeague);
  } else if (!kind_is_known) {
    unused = FindUnusedFields(config, RunKind::kParallel, RunKind::kOnPolicyParallel);
  }
  problems.insert(problems.end(), unused.begin(), unused.end());
  return problems;
}

std::vector<std::string> FindPolicyProblems(const ExperimentConfig& config, const EnvSpec& env,
                                            const CollectAttributes& policy,
                                            LearnMode* learn_mode) {
  std::vector<std::string> problems = FindPolicyKindProblems(config, policy);
  const auto add = [&problems](std::vector<std::string> more) {
    for (std::string& problem : more) problems.push_back(std::move(problem));
  };
  if (policy.on_policy) {
    add(FindSampleProblems(config, env.max_episode_steps));
  } else if (learn_mode != nullptr) {
    add(FindSequenceProblems(config, learn_mode->attributes(),
                             HasItemsOfSequences(config.policy().other().replay_buffer()),
                             env.max_episode_steps));
    add(FindGoalProblems(config, env));
  }
  return problems;
}

GivenParams CommCollectorConfig(const ExperimentConfig& config) {
  const SystemSection& system = config.system();
  return {system.comm_collector_type(),
          system.has_comm_collector_params() ? &system.comm_collector_params() : nullptr,
          "comm_collector_params"};
}

GivenParams CommLearnerConfig(const ExperimentConfig& config) {
  const SystemSection& system = config.system();
  return {system.comm_learner_type(),
          system.has_comm_learner_params() ? &system.comm_learner_params() : nullptr,
          "comm_learner_params"};
}

}  // namespace ding
