// Makes a learner's hooks from its config, and finds hooks of a user's own by name.
//
// Example: a hook of one's own, registered under "report" and asked for by
//   hook { hook { type: "report" position: AFTER_ITER priority: 50 } }
//
//   DING_REGISTER(LearnerHookRegistry(), "report", [](const LearnerHookConfig& config) {
//     return std::make_shared<ReportHook>(...);
//   });
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

// Gets the hook's config with name, position and priority filled in.
using LearnerHookCreator =
    std::function<absl::StatusOr<std::shared_ptr<LearnerHook>>(const LearnerHookConfig&)>;
Registry<LearnerHookCreator>& LearnerHookRegistry();

// Adds a type of hook at run time; a name that is taken ends the program, as with DING_REGISTER.
void register_learner_hook(absl::string_view type, LearnerHookCreator creator);

// The hooks of the short forms and of the full ones. Reports every problem at once: unknown types,
// repeated names, frequencies and priorities out of range.
absl::StatusOr<LearnerHooks> build_learner_hook_by_cfg(const LearnerHooksConfig& config);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_HOOK_REGISTRY_H_
