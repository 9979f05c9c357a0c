#include "ding_worker/worker/parallel_setup.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/coordinator/commander_registry.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/game_spec.h"
#include "ding_worker/interaction/all_reduce.h"
#include "ding_worker/interaction/all_reduce_registry.h"
#include "ding_worker/interaction/protocol.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/experiment_setup.h"
#include "ding_worker/worker/game_setup.h"
#include "ding_worker/worker/run_checkpoints.h"
#include "ding_worker/worker/text_config.h"

namespace ding {
namespace {

// Reports of a learner whose buffer wants no priorities.
constexpr int64_t kSendInfoFreq = 20;
// What a learner that dies loses, at most, if the config does not say otherwise.
constexpr double kMaxResumeSeconds = 10;
// What a session can do.
constexpr double kMinLeaseSeconds = 0.02;

absl::StatusOr<EnvSpec> SpecOfEnv(const ExperimentConfig& config, const Clock* clock) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<EnvManager> env, MakeEnvManager(config, 1, clock));
  if (env->env_spec().players > 1) {
    return absl::UnimplementedError(
        absl::StrCat("env '", config.env().type(), "' is a game of ", env->env_spec().players,
                     " players: parallel runs are for envs for one; //worker:serial plays games"));
  }
  return env->env_spec();
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
        made->env_,
        eval ? MakeEvaluatorEnvManager(config, config.env().evaluator_env_num(), deps.clock)
             : MakeEnvManager(config, config.env().collector_env_num(), deps.clock));
    // Evaluations have the same episodes each, collecting tasks never the same.
    DING_RETURN_IF_ERROR(made->env_->Seed(eval ? Rng::DeriveSeed(seed, "evaluator_env")
                                               : Rng::DeriveSeed(seed, "collector_env", number),
                                          /*dynamic=*/true));
    PolicyModes modes;
    modes.learn = modes.command = false;
    modes.collect = !eval;
    modes.eval = eval;
    PolicyContext context = MakePolicyContext(config, PlayerSpec(made->env_->env_spec()), modes);
    context.seed = Rng::DeriveSeed(seed, "collect_policy", number);
    DING_ASSIGN_OR_RETURN(made->policy_, create_policy(MakePolicyConfig(config), context));

    ParallelCollectorTask parameters;
    parameters.task_id = task.task_id();
    parameters.eval_flag = eval;
    parameters.collect_setting = FromSettings(task.collect_setting());
    ParallelCollectorParts parts;
    parts.env = made->env_.get();
    parts.collect_mode = made->policy_->collect_mode();
    parts.eval_mode = made->policy_->eval_mode();
    parts.link = link;
    parts.episodes_per_env =
        eval ? config.env().evaluator_episode_num() : config.env().collector_episode_num();
    deps.name = eval ? "evaluator" : "collector";
    DING_ASSIGN_OR_RETURN(made->collector_,
                          create_parallel_collector(config.policy().collect().parallel_collector(),
                                                    parameters, parts, deps));
    return made;
  }

  BaseParallelCollector* collector() override { return collector_.get(); }

 private:
  std::unique_ptr<EnvManager> env_;
  std::unique_ptr<Policy> policy_;
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
    deps.name = "learner";
    deps.seed = config.seed();
    LearnerConfig learner_config = config.policy().learn().learner();
    const std::string resume = JoinPath(JoinPath(deps.exp_dir, "ckpt"), kResumeCheckpoint);
    LearnerHooksConfig& hooks = *learner_config.mutable_hook();
    if (hooks.save_ckpt_seconds() == 0 && config.resume().period_seconds() > 0) {
      hooks.set_save_ckpt_seconds(std::min(kMaxResumeSeconds, config.resume().period_seconds()));
    }
    if (task.resume()) {
      // What the learner before left half written.
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

  BaseLearner* learner() override { return learner_.get(); }
  NamedValues LearnSettings(int64_t train_iter, int64_t envstep) override {
    if (policy_->command_mode() == nullptr) return {};
    return policy_->command_mode()->GetSettingLearn(
        {{"learner_step", static_cast<double>(train_iter)},
         {"envstep", static_cast<double>(std::max<int64_t>(0, envstep))}});
  }

 private:
  static absl::Status Save(const ExperimentConfig& config, const std::string& env_name,
                           const BaseLearner& learner, absl::string_view name) {
    const std::string path = learner.CheckpointPath(name);
    DING_RETURN_IF_ERROR(CreateDirectories(JoinPath(learner.deps().exp_dir, "ckpt")));
    CheckpointInfo info = LearnerCheckpointInfo(learner);
    DescribeRun(config, env_name, &info);
    return WriteCheckpoint(path, info, LearnerComponents(learner));
  }

  std::unique_ptr<Policy> policy_;
  std::unique_ptr<BaseLearner> learner_;
};

// What learners of a group reduce with.
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
  const double lease = config.system().coordinator().lease_seconds();
  if (!(lease >= kMinLeaseSeconds)) {
    problems.push_back(absl::StrCat("system.coordinator.lease_seconds is ", lease, ", expected ",
                                    kMinLeaseSeconds, " or more"));
  }
  const auto known = [&](absl::string_view path, const absl::Status& found) {
    if (!found.ok()) problems.push_back(absl::StrCat(path, ": ", found.message()));
  };
  known("system.comm_collector_type",
        CommCollectorRegistry().Find(config.system().comm_collector_type()).status());
  known("system.comm_learner_type",
        CommLearnerRegistry().Find(config.system().comm_learner_type()).status());
  known("policy.other.commander.type",
        get_parallel_commander_cls(policy.other().commander()).status());
  known("policy.collect.parallel_collector.type",
        get_parallel_collector_cls(policy.collect().parallel_collector()).status());
  if (absl::StartsWith(config.system().store_url(), "mem:")) {
    problems.push_back(absl::StrCat("system.store_url is '", config.system().store_url(),
                                    "', memory of one process, expected what all of them can read: "
                                    "'file:/folder'"));
  }
  if (IsSupervised(config)) {
    problems.push_back("data_set.path is set: a parallel run learns from what it collects");
  }
  if (policy.random_collect_size() != 0) {
    problems.push_back(absl::StrCat("policy.random_collect_size is ", policy.random_collect_size(),
                                    ", expected 0 in a parallel run"));
  }
  if (policy.collect().unroll_len() != 1) {
    problems.push_back(absl::StrCat("policy.collect.unroll_len is ", policy.collect().unroll_len(),
                                    ", expected 1 in a parallel run"));
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
                                                 Store* store, CoordinatorSender* sender) {
  CoordinatorParts made;
  DING_ASSIGN_OR_RETURN(const EnvSpec env, SpecOfEnv(config, deps.clock));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<EnvManager> evaluator_env,
                        MakeEvaluatorEnvManager(config, 1, deps.clock));
  DING_RETURN_IF_ERROR(CheckSamePlayer(env, evaluator_env->env_spec()));
  // Collect mode only to ask what it is.
  PolicyModes modes;
  modes.learn = modes.eval = false;
  DING_ASSIGN_OR_RETURN(
      made.policy, create_policy(MakePolicyConfig(config), MakePolicyContext(config, env, modes)));
  if (made.policy->collect_mode()->attributes().on_policy) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy.type '", config.policy().type(),
                     "' is on-policy: parallel runs learn from a replay buffer"));
  }
  CommanderDeps commander_deps(deps);
  commander_deps.name = "commander";
  commander_deps.policy = made.policy->command_mode();
  commander_deps.stop_value = config.env().stop_value();
  Coordinator::Parts parts;
  DING_ASSIGN_OR_RETURN(parts.commander, create_parallel_commander(
                                             config.policy().other().commander(), commander_deps));
  // Rows of the buffer are items: returns are computed where the data are read.
  BufferConfig buffer_config = config.policy().other().replay_buffer();
  buffer_config.set_nstep(1);
  parts.make_buffer = [buffer_config, deps](const std::string& buffer_id, OnRemoved on_removed) {
    BufferDeps buffer_deps(deps);
    buffer_deps.name = buffer_id;
    buffer_deps.on_removed = std::move(on_removed);
    return create_buffer(buffer_config, buffer_deps);
  };
  parts.delete_key = [store](const std::string& key) { return store->Delete(key); };
  parts.sender = sender;

  const CoordinatorConfig& section = config.system().coordinator();
  Coordinator::Options options;
  options.run = run;
  options.collector_task_timeout = absl::Seconds(section.collector_task_timeout());
  options.learner_task_timeout = absl::Seconds(section.learner_task_timeout());
  options.collectors = section.collectors();
  options.max_task_failures = section.max_task_failures();
  options.max_env_step = config.max_env_step();
  options.max_train_iter = config.max_train_iter();
  options.max_time = absl::Seconds(config.system().max_seconds());
  ComponentDeps coordinator_deps = deps;
  coordinator_deps.name = "coordinator";
  DING_ASSIGN_OR_RETURN(made.coordinator,
                        Coordinator::Create(options, std::move(parts), coordinator_deps));
  return made;
}

}  // namespace ding
