// Learners and their hooks by name.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<ILearner> learner,
//                         create_learner(config, policy->learn_mode(), deps));
//
// Example: a learner of your own (learner/example_test.cc has all of it).
//   DING_REGISTER(LearnerRegistry(), "repeat", MakeRepeatLearner, "trains several times on each batch");
//
//   learner { type: "repeat" params { [type.googleapis.com/ding.RepeatLearnerConfig] { times: 3 } } }
#ifndef DING_WORKER_LEARNER_LEARNER_REGISTRY_H_
#define DING_WORKER_LEARNER_LEARNER_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Learners (base/module.h). `policy` and `group` outlive the learner; a null `group` is a single
// process. "base" is linked with the registry.
using LearnerCreator = Module<std::unique_ptr<ILearner>, LearnerConfig, LearnMode*,
                              const ComponentDeps&, ProcessGroup*>;
ModuleRegistry<LearnerCreator>& LearnerRegistry();

// Makes the learner that `config` names, with the errors of ModuleRegistry::Create().
// kInvalidArgument if the policy has no learn mode.
inline absl::StatusOr<std::unique_ptr<ILearner>> create_learner(const LearnerConfig& config,
                                                                LearnMode* policy,
                                                                const ComponentDeps& deps,
                                                                ProcessGroup* group = nullptr) {
  return LearnerRegistry().Create(config, policy, deps, group);
}

// Reads the config fields that every learner has. It is for the factory of a learner of your own
// that derives from BaseLearner or has a BaseLearner as a part. Makes the hooks, and leaves
// `params` to the factory. kInvalidArgument unless BaseLearner::CheckParts() accepts the parts.
absl::StatusOr<BaseLearner::Parts> ReadBaseLearnerParts(const LearnerConfig& config,
                                                        LearnMode* policy,
                                                        const ComponentDeps& deps,
                                                        ProcessGroup* group);

// Creates a hook from its config. The caller has filled in name, position and priority.
//
// Example: a user's hook, registered as "report" and configured by
//   hook { hook { type: "report" position: AFTER_ITER priority: 50 } }
//
//   DING_REGISTER(
//       LearnerHookRegistry(), "report",
//       [](const LearnerHookConfig& config, const NoParams&) {
//         return std::make_shared<ReportHook>(...);
//       },
//       "reports the loss to a web page");
using LearnerHookCreator = Module<std::shared_ptr<LearnerHook>, LearnerHookConfig>;
ModuleRegistry<LearnerHookCreator>& LearnerHookRegistry();

// Adds a type of hook at run time, with one line of help and, if it takes params, their message. A
// duplicate name and bad help end the program, as with DING_REGISTER.
void register_learner_hook(absl::string_view type, LearnerHookCreator creator,
                           const RegistryHelp& help);

// Creates the hooks of the short and the full forms. kInvalidArgument lists all problems: unknown
// types, repeated names, frequencies and priorities out of range.
absl::StatusOr<LearnerHooks> build_learner_hook_by_cfg(const LearnerHooksConfig& config);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_LEARNER_REGISTRY_H_
