#include "ding_worker/learner/learner_registry.h"

#include <utility>

#include "ding_worker/base/call_user.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/hook_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<ILearner>> CreateBaseLearner(const LearnerConfig& config,
                                                            LearnMode* policy,
                                                            const ComponentDeps& deps,
                                                            ProcessGroup* group) {
  DING_RETURN_IF_ERROR(ReadParams(config, /*params=*/nullptr));
  DING_ASSIGN_OR_RETURN(BaseLearner::Parts parts,
                        ReadBaseLearnerParts(config, policy, deps, group));
  return BaseLearner::Create(std::move(parts));
}

}  // namespace

Registry<LearnerCreator>& LearnerRegistry() {
  static auto* const registry = [] {
    auto* made = new Registry<LearnerCreator>("learner");
    made->Register("base", CreateBaseLearner,
                   "trains the policy on each batch, with hooks around each iteration", __FILE__);
    return made;
  }();
  return *registry;
}

// EntriesOfKind() finds the built-in types, too, before anybody has asked for one.
[[maybe_unused]] static const bool kListed = (LearnerRegistry(), true);

absl::StatusOr<std::unique_ptr<ILearner>> create_learner(const LearnerConfig& config,
                                                         LearnMode* policy,
                                                         const ComponentDeps& deps,
                                                         ProcessGroup* group) {
  DING_ASSIGN_OR_RETURN(const LearnerCreator create, LearnerRegistry().Find(config.type()));
  return CallFactory("learner", config.type(), [&] { return create(config, policy, deps, group); });
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

}  // namespace ding
