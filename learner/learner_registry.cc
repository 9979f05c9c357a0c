#include "ding_worker/learner/learner_registry.h"

#include <utility>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/hook_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseLearner>> CreateBaseLearner(const LearnerConfig& config,
                                                               LearnMode* policy,
                                                               const ComponentDeps& deps,
                                                               ProcessGroup* group) {
  DING_ASSIGN_OR_RETURN(LearnerHooks hooks, build_learner_hook_by_cfg(config.hook()));
  BaseLearner::Options options;
  options.train_iterations = config.train_iterations();
  options.log_policy = config.log_policy();
  options.only_monitor_rank0 = config.only_monitor_rank0();
  options.monitor_window = config.monitor_window();
  return BaseLearner::Create(options, policy, std::move(hooks), deps, group);
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

absl::StatusOr<std::unique_ptr<BaseLearner>> create_learner(const LearnerConfig& config,
                                                            LearnMode* policy,
                                                            const ComponentDeps& deps,
                                                            ProcessGroup* group) {
  DING_ASSIGN_OR_RETURN(const LearnerCreator create, LearnerRegistry().Find(config.type()));
  return create(config, policy, deps, group);
}

}  // namespace ding
