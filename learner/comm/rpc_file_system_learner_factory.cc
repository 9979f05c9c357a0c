#include <memory>
#include <utility>

#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/learner/comm/rpc_file_system_learner.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommLearner>> CreateLearner(const GivenParams& /*config*/,
                                                               const CommLearnerOptions& options,
                                                               WorkerSession* session, Store* store,
                                                               TaskLearnerFactory factory) {
  return std::make_unique<RpcFileSystemLearner>(options, session, store, std::move(factory));
}

CommLearnerDescriptor Descriptor() {
  CommLearnerDescriptor descriptor;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateLearner;
  return descriptor;
}

DING_REGISTER(CommLearnerRegistry(), "grpc_fs", Descriptor());
// The same with a store in Redis; who composes the run looks that it is one.
DING_REGISTER(CommLearnerRegistry(), "grpc_redis", Descriptor());
// The original's name of it.
DING_REGISTER(CommLearnerRegistry(), "flask_fs", Descriptor());

}  // namespace
}  // namespace ding
