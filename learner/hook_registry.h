// Creates a learner's hooks from its config; users register their own types of hooks by name.
//
// Example: a user's hook, registered as "report" and configured by
//   hook { hook { type: "report" position: AFTER_ITER priority: 50 } }
//
//   DING_REGISTER(
//       LearnerHookRegistry(), "report",
//       [](const LearnerHookConfig& config) { return std::make_shared<ReportHook>(...); },
//       "reports the loss to a web page");
#ifndef DING_WORKER_LEARNER_HOOK_REGISTRY_H_
#define DING_WORKER_LEARNER_HOOK_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.pb.h"

namespace ding {

// Creates a hook from its config, in which name, position and priority are filled in.
using LearnerHookCreator =
    std::function<absl::StatusOr<std::shared_ptr<LearnerHook>>(const LearnerHookConfig&)>;
Registry<LearnerHookCreator>& LearnerHookRegistry();

// Adds a type of hook at run time, with one line of help and, if it takes params, their message. A name that is
// registered already and bad help end the program, as with DING_REGISTER.
void register_learner_hook(absl::string_view type, LearnerHookCreator creator,
                           const RegistryHelp& help);

// Creates the hooks of the short and the full forms. kInvalidArgument lists all problems: unknown
// types, repeated names, frequencies and priorities out of range.
absl::StatusOr<LearnerHooks> build_learner_hook_by_cfg(const LearnerHooksConfig& config);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_HOOK_REGISTRY_H_
