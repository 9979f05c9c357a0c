#include "ding_worker/learner/comm/comm_learner_registry.h"

#include <utility>

#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<CommLearnerCreator>& CommLearnerRegistry() {
  static auto* const registry = new Registry<CommLearnerCreator>("comm learner");
  return *registry;
}

absl::StatusOr<std::unique_ptr<BaseCommLearner>> create_comm_learner(
    absl::string_view type, const CommLearnerOptions& options, WorkerSession* session, Store* store,
    TaskLearnerFactory factory) {
  DING_ASSIGN_OR_RETURN(const CommLearnerCreator create, CommLearnerRegistry().Find(type));
  return create(options, session, store, std::move(factory));
}

}  // namespace ding
