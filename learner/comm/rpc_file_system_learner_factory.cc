#include <memory>
#include <utility>

#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/learner/comm/rpc_file_system_learner.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommLearner>> Create(const CommLearnerOptions& options,
                                                        WorkerSession* session, Store* store,
                                                        TaskLearnerFactory factory) {
  return std::make_unique<RpcFileSystemLearner>(options, session, store, std::move(factory));
}

DING_REGISTER(CommLearnerRegistry(), "grpc_fs", Create,
              "data through a store that is not in Redis, messages over a session");
// The same class; a parallel run accepts this name only if its store is in Redis.
DING_REGISTER(CommLearnerRegistry(), "grpc_redis", Create,
              "data through a store in Redis, messages over a session");
DING_REGISTER(CommLearnerRegistry(), "flask_fs", Create, "DI-engine's name for grpc_fs");

}  // namespace
}  // namespace ding
