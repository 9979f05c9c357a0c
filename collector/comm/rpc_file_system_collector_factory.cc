#include <memory>
#include <utility>

#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/collector/comm/rpc_file_system_collector.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommCollector>> Create(WorkerSession* session, Store* store,
                                                          TaskCollectorFactory factory) {
  return std::make_unique<RpcFileSystemCollector>(RpcFileSystemCollector::Options(), session, store,
                                                  std::move(factory));
}

DING_REGISTER(CommCollectorRegistry(), "grpc_fs", Create);
// The same with a store in Redis; who composes the run looks that it is one.
DING_REGISTER(CommCollectorRegistry(), "grpc_redis", Create);
// The original's name of it.
DING_REGISTER(CommCollectorRegistry(), "flask_fs", Create);

}  // namespace
}  // namespace ding
