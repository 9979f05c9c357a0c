#include "ding_worker/learner/comm/comm_learner_registry.h"

#include <utility>

#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<CommLearnerDescriptor>& CommLearnerRegistry() {
  static auto* const registry = new Registry<CommLearnerDescriptor>("comm learner");
  return *registry;
}

absl::StatusOr<std::unique_ptr<BaseCommLearner>> create_comm_learner(
    const GivenParams& config, const CommLearnerOptions& options, WorkerSession* session,
    Store* store, TaskLearnerFactory factory) {
  DING_ASSIGN_OR_RETURN(const CommLearnerDescriptor descriptor,
                        CommLearnerRegistry().Find(config.type));
  DING_RETURN_IF_ERROR(Annotate(CheckParams(descriptor.check_params, config), "comm learner"));
  return CallFactory("comm learner", config.type, [&] {
    return descriptor.create(config, options, session, store, std::move(factory));
  });
}

}  // namespace ding
