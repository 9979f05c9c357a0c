// Finds learner workers by the name in the config.
#ifndef DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_
#define DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/base_comm_learner.h"

namespace ding {

using CommLearnerCreator = std::function<absl::StatusOr<std::unique_ptr<BaseCommLearner>>(
    const CommLearnerOptions&, WorkerSession*, Store*, TaskLearnerFactory)>;
Registry<CommLearnerCreator>& CommLearnerRegistry();

// kNotFound lists the names that are linked. Session and store outlive what is created.
absl::StatusOr<std::unique_ptr<BaseCommLearner>> create_comm_learner(
    absl::string_view type, const CommLearnerOptions& options, WorkerSession* session, Store* store,
    TaskLearnerFactory factory);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_
