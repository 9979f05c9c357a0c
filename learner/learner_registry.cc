#include "ding_worker/learner/learner_registry.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/hooks.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<ILearner>> CreateBaseLearner(const LearnerConfig& config,
                                                            const NoParams& /*params*/,
                                                            LearnMode* policy,
                                                            const ComponentDeps& deps,
                                                            ProcessGroup* group) {
  DING_ASSIGN_OR_RETURN(BaseLearner::Parts parts,
                        ReadBaseLearnerParts(config, policy, deps, group));
  return BaseLearner::Create(std::move(parts));
}

DING_REGISTER(LearnerRegistry(), "base", CreateBaseLearner,
              "trains the policy on each batch, with hooks around each iteration");

HookPosition PositionOf(const LearnerHookConfig& config) {
  switch (config.position()) {
    case LearnerHookConfig::BEFORE_RUN:
      return HookPosition::kBeforeRun;
    case LearnerHookConfig::AFTER_RUN:
      return HookPosition::kAfterRun;
    case LearnerHookConfig::BEFORE_ITER:
      return HookPosition::kBeforeIter;
    case LearnerHookConfig::AFTER_ITER:
      return HookPosition::kAfterIter;
    case LearnerHookConfig::AFTER_EVAL:
      return HookPosition::kAfterEval;
  }
  return HookPosition::kAfterIter;
}

LearnerHookConfig ShortForm(absl::string_view type, LearnerHookConfig::Position position,
                            int priority) {
  LearnerHookConfig config;
  config.set_type(std::string(type));
  config.set_position(position);
  config.set_name(absl::StrCat(type, "_", HookPositionName(PositionOf(config))));
  config.set_priority(priority);
  return config;
}

// Returns every hook in its full form.
std::vector<LearnerHookConfig> Expand(const LearnerHooksConfig& config) {
  std::vector<LearnerHookConfig> hooks;
  if (!config.load_ckpt_before_run().empty()) {
    hooks.push_back(ShortForm("load_ckpt", LearnerHookConfig::BEFORE_RUN, kDefaultHookPriority));
    hooks.back().set_path(config.load_ckpt_before_run());
  }
  if (config.log_reduce_after_iter()) {
    hooks.push_back(ShortForm("log_reduce", LearnerHookConfig::AFTER_ITER, kLogReduceHookPriority));
  }
  if (config.log_show_after_iter() != 0) {
    hooks.push_back(ShortForm("log_show", LearnerHookConfig::AFTER_ITER, kDefaultHookPriority));
    hooks.back().set_freq(config.log_show_after_iter());
  }
  if (config.save_ckpt_after_iter() != 0) {
    hooks.push_back(ShortForm("save_ckpt", LearnerHookConfig::AFTER_ITER, kDefaultHookPriority));
    hooks.back().set_freq(config.save_ckpt_after_iter());
  }
  if (config.save_ckpt_seconds() != 0) {
    hooks.push_back(
        ShortForm("save_ckpt_seconds", LearnerHookConfig::AFTER_ITER, kDefaultHookPriority));
    hooks.back().set_seconds(config.save_ckpt_seconds());
  }
  if (config.save_ckpt_after_run()) {
    hooks.push_back(ShortForm("save_ckpt", LearnerHookConfig::AFTER_RUN, kDefaultHookPriority));
  }
  for (const LearnerHookConfig& full : config.hook()) {
    hooks.push_back(full);
    if (!full.has_name()) hooks.back().set_name(full.type());
  }
  return hooks;
}

absl::StatusOr<std::shared_ptr<LearnerHook>> BuildHook(const LearnerHookConfig& config) {
  std::vector<std::string> problems;
  CheckRanges(config, "", &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
  return LearnerHookRegistry().Create(config);
}

template <typename Hook>
std::shared_ptr<LearnerHook> CreateWithFreq(const LearnerHookConfig& config, const NoParams&) {
  return std::make_shared<Hook>(config.name(), config.priority(), PositionOf(config),
                                config.freq());
}

std::shared_ptr<LearnerHook> CreateLoadCkpt(const LearnerHookConfig& config, const NoParams&) {
  return std::make_shared<LoadCkptHook>(config.name(), config.priority(), PositionOf(config),
                                        config.path());
}

absl::StatusOr<std::shared_ptr<LearnerHook>> CreateSaveCkptSeconds(const LearnerHookConfig& config,
                                                                   const NoParams&) {
  if (config.position() != LearnerHookConfig::AFTER_ITER) {
    return absl::InvalidArgumentError("position is not AFTER_ITER");
  }
  return std::make_shared<SavePeriodicallyHook>(
      config.name(), config.priority(), PositionOf(config), absl::Seconds(config.seconds()));
}

std::shared_ptr<LearnerHook> CreateLogReduce(const LearnerHookConfig& config, const NoParams&) {
  return std::make_shared<LogReduceHook>(config.name(), config.priority(), PositionOf(config));
}

DING_REGISTER(LearnerHookRegistry(), "load_ckpt", CreateLoadCkpt,
              "loads policy, optimizer and counters from the checkpoint at path");
DING_REGISTER(LearnerHookRegistry(), "save_ckpt", CreateWithFreq<SaveCkptHook>,
              "saves a checkpoint: every freq iterations, or once before or after the run");
DING_REGISTER(LearnerHookRegistry(), "save_ckpt_seconds", CreateSaveCkptSeconds,
              "saves a checkpoint to resume from, whenever so many seconds have passed");
DING_REGISTER(LearnerHookRegistry(), "log_show", CreateWithFreq<LogShowHook>,
              "logs averages of the reported values every freq iterations");
DING_REGISTER(LearnerHookRegistry(), "log_reduce", CreateLogReduce,
              "replaces each reported scalar by its mean over the learners");

}  // namespace

ModuleRegistry<LearnerCreator>& LearnerRegistry() {
  static auto* const registry = new ModuleRegistry<LearnerCreator>("learner");
  return *registry;
}

ModuleRegistry<LearnerHookCreator>& LearnerHookRegistry() {
  static auto* const registry = new ModuleRegistry<LearnerHookCreator>("learner hook");
  return *registry;
}

absl::StatusOr<BaseLearner::Parts> ReadBaseLearnerParts(const LearnerConfig& config,
                                                        LearnMode* policy,
                                                        const ComponentDeps& deps,
                                                        ProcessGroup* group) {
  if (policy == nullptr) {
    return absl::InvalidArgumentError("the policy has no learn mode, which a learner needs");
  }
  BaseLearner::Parts parts;
  parts.options.train_iterations = config.train_iterations();
  parts.options.log_policy = config.log_policy();
  parts.options.only_monitor_rank0 = config.only_monitor_rank0();
  parts.options.is_multitask_pipeline = config.is_multitask_pipeline();
  parts.options.monitor_window = config.monitor_window();
  parts.policy = policy;
  parts.deps = deps;
  parts.group = group;
  DING_ASSIGN_OR_RETURN(parts.hooks, build_learner_hook_by_cfg(config.hook()));
  DING_RETURN_IF_ERROR(BaseLearner::CheckParts(parts));
  return parts;
}

void register_learner_hook(absl::string_view type, LearnerHookCreator creator,
                           const RegistryHelp& help) {
  LearnerHookRegistry().Register(type, std::move(creator), help, "register_learner_hook");
}

absl::StatusOr<LearnerHooks> build_learner_hook_by_cfg(const LearnerHooksConfig& config) {
  LearnerHooks hooks;
  std::vector<std::string> problems;
  std::set<std::string> names;
  for (const LearnerHookConfig& full : Expand(config)) {
    if (!names.insert(full.name()).second) {
      problems.push_back(absl::StrCat("hook '", full.name(), "' appears twice"));
      continue;
    }
    absl::StatusOr<std::shared_ptr<LearnerHook>> hook = BuildHook(full);
    if (hook.ok()) {
      add_learner_hook(&hooks, *std::move(hook));
    } else {
      problems.push_back(absl::StrCat("hook '", full.name(), "': ", hook.status().message()));
    }
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
  return hooks;
}

}  // namespace ding
