// Finds learner workers by the name in the config.
#ifndef DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_
#define DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/base_comm_learner.h"

namespace ding {

// `config` gives the type and system.comm_learner_params.
using CommLearnerCreator = std::function<absl::StatusOr<std::unique_ptr<BaseCommLearner>>(
    const GivenParams& config, const CommLearnerOptions&, WorkerSession*, Store*,
    TaskLearnerFactory)>;

// A type of learner worker.
struct CommLearnerDescriptor {
  // Checks the parameters before a run begins and before `create` is called; if it is empty, only
  // `create` decides (base/params.h).
  ParamsCheck check_params;
  CommLearnerCreator create;
  // The only scheme of a store that the type works with, as "redis"; empty: any store that
  // processes share.
  std::string store_scheme;
};
Registry<CommLearnerDescriptor>& CommLearnerRegistry();

// Makes a worker of config.type. Session and store outlive what is created.
//   kNotFound         lists the names that are linked
//   kInvalidArgument  says why the type refuses the parameters
absl::StatusOr<std::unique_ptr<BaseCommLearner>> create_comm_learner(
    const GivenParams& config, const CommLearnerOptions& options, WorkerSession* session,
    Store* store, TaskLearnerFactory factory);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_
