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

DING_REGISTER(CommCollectorRegistry(), "grpc_fs", Descriptor(),
              "data through a store that is not in Redis, messages over a session");
// The same class; a parallel run accepts this name only if its store is in Redis.
DING_REGISTER(CommCollectorRegistry(), "grpc_redis", Descriptor(),
              "data through a store in Redis, messages over a session");
DING_REGISTER(CommCollectorRegistry(), "flask_fs", Descriptor(), "DI-engine's name for grpc_fs");

}  // namespace
}  // namespace ding
