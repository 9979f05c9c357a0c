#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommLearner>> Create(const GivenParams& /*config*/,
                                                        const NoParams& /*params*/,
                                                        const CommLearnerOptions& options,
                                                        WorkerSession* session, Store* store,
                                                        TaskLearnerFactory factory) {
  return std::make_unique<BaseCommLearner>(options, session, store, std::move(factory));
}

DING_REGISTER(CommLearnerRegistry(), "grpc_fs", CommLearnerDescriptor{Create},
              "data through a store, messages over a session");
// The same class, for runs that say where their data are.
DING_REGISTER(CommLearnerRegistry(), "grpc_redis", (CommLearnerDescriptor{Create, "redis"}),
              "like grpc_fs; refuses a store that is not in Redis");
DING_REGISTER(CommLearnerRegistry(), "flask_fs", CommLearnerDescriptor{Create},
              "DI-engine's name for grpc_fs");

}  // namespace
}  // namespace ding
