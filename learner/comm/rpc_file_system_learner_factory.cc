#include <memory>
#include <string>
#include <utility>

#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommLearner>> CreateLearner(const GivenParams& /*config*/,
                                                               const CommLearnerOptions& options,
                                                               WorkerSession* session, Store* store,
                                                               TaskLearnerFactory factory) {
  return std::make_unique<BaseCommLearner>(options, session, store, std::move(factory));
}

CommLearnerDescriptor Descriptor(const std::string& store_scheme = "") {
  CommLearnerDescriptor descriptor;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateLearner;
  descriptor.store_scheme = store_scheme;
  return descriptor;
}

DING_REGISTER(CommLearnerRegistry(), "grpc_fs", Descriptor(),
              "data through a store, messages over a session");
// The same class, for runs that say where their data are.
DING_REGISTER(CommLearnerRegistry(), "grpc_redis", Descriptor("redis"),
              "like grpc_fs; refuses a store that is not in Redis");
DING_REGISTER(CommLearnerRegistry(), "flask_fs", Descriptor(), "DI-engine's name for grpc_fs");

}  // namespace
}  // namespace ding
