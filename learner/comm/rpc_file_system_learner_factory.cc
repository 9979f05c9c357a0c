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

DING_REGISTER(CommLearnerRegistry(), "grpc_fs", Create);
// The same with a store in Redis; who composes the run looks that it is one.
DING_REGISTER(CommLearnerRegistry(), "grpc_redis", Create);
// The original's name of it.
DING_REGISTER(CommLearnerRegistry(), "flask_fs", Create);

}  // namespace
}  // namespace ding
