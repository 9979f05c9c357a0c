#include <memory>
#include <utility>

#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/collector/comm/rpc_file_system_collector.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommCollector>> CreateCollector(const GivenParams& /*config*/,
                                                                   WorkerSession* session,
                                                                   Store* store,
                                                                   TaskCollectorFactory factory) {
  return std::make_unique<RpcFileSystemCollector>(RpcFileSystemCollector::Options(), session, store,
                                                  std::move(factory));
}

CommCollectorDescriptor Descriptor() {
  CommCollectorDescriptor descriptor;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateCollector;
  return descriptor;
}

DING_REGISTER(CommCollectorRegistry(), "grpc_fs", Descriptor());
// The same with a store in Redis; who composes the run looks that it is one.
DING_REGISTER(CommCollectorRegistry(), "grpc_redis", Descriptor());
// The original's name of it.
DING_REGISTER(CommCollectorRegistry(), "flask_fs", Descriptor());

}  // namespace
}  // namespace ding
