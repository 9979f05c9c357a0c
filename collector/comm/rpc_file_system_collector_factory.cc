#include <memory>
#include <string>
#include <utility>

#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommCollector>> CreateCollector(const GivenParams& /*config*/,
                                                                   WorkerSession* session,
                                                                   Store* store,
                                                                   TaskCollectorFactory factory) {
  return std::make_unique<BaseCommCollector>(session, store, std::move(factory));
}

CommCollectorDescriptor Descriptor(const std::string& store_scheme = "") {
  CommCollectorDescriptor descriptor;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateCollector;
  descriptor.store_scheme = store_scheme;
  return descriptor;
}

DING_REGISTER(CommCollectorRegistry(), "grpc_fs", Descriptor(),
              "data through a store, messages over a session");
// The same class, for runs that say where their data are.
DING_REGISTER(CommCollectorRegistry(), "grpc_redis", Descriptor("redis"),
              "like grpc_fs; refuses a store that is not in Redis");
DING_REGISTER(CommCollectorRegistry(), "flask_fs", Descriptor(), "DI-engine's name for grpc_fs");

}  // namespace
}  // namespace ding
