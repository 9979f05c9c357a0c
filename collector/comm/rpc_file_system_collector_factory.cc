#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommCollector>> Create(const GivenParams& /*config*/,
                                                          const NoParams& /*params*/,
                                                          WorkerSession* session, Store* store,
                                                          TaskCollectorFactory factory) {
  return std::make_unique<BaseCommCollector>(session, store, std::move(factory));
}

DING_REGISTER(CommCollectorRegistry(), "grpc_fs", CommCollectorDescriptor{Create},
              "data through a store, messages over a session");
// The same class, for runs that say where their data are.
DING_REGISTER(CommCollectorRegistry(), "grpc_redis", (CommCollectorDescriptor{Create, "redis"}),
              "like grpc_fs; refuses a store that is not in Redis");
DING_REGISTER(CommCollectorRegistry(), "flask_fs", CommCollectorDescriptor{Create},
              "DI-engine's name for grpc_fs");

}  // namespace
}  // namespace ding
