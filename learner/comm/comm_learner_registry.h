// The registry of the types of learner workers, which a config names.
#ifndef DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_
#define DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/params.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/base_comm_learner.h"

namespace ding {

// A type of learner worker (base/module.h). Its config is the type and system.comm_learner_params.
struct CommLearnerDescriptor
    : Module<std::unique_ptr<BaseCommLearner>, GivenParams, const CommLearnerOptions&,
             WorkerSession*, Store*, TaskLearnerFactory> {
  // The URL scheme of the stores that the type works with, such as "redis". Empty: any store that
  // several processes can share.
  std::string store_scheme = {};
};
inline ModuleRegistry<CommLearnerDescriptor>& CommLearnerRegistry() {
  static auto* const registry = new ModuleRegistry<CommLearnerDescriptor>("comm learner");
  return *registry;
}

// Makes a worker of type config.type, with the errors of ModuleRegistry::Create(). `session` and
// `store` must outlive it.
inline absl::StatusOr<std::unique_ptr<BaseCommLearner>> create_comm_learner(
    const GivenParams& config, const CommLearnerOptions& options, WorkerSession* session,
    Store* store, TaskLearnerFactory factory) {
  return CommLearnerRegistry().Create(config, options, session, store, std::move(factory));
}

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_COMM_LEARNER_REGISTRY_H_
