#include "ding_worker/collector/comm/comm_collector_registry.h"

#include <utility>

#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<CommCollectorDescriptor>& CommCollectorRegistry() {
  static auto* const registry = new Registry<CommCollectorDescriptor>("comm collector");
  return *registry;
}

absl::StatusOr<std::unique_ptr<BaseCommCollector>> create_comm_collector(
    const GivenParams& config, WorkerSession* session, Store* store, TaskCollectorFactory factory) {
  DING_ASSIGN_OR_RETURN(const CommCollectorDescriptor descriptor,
                        CommCollectorRegistry().Find(config.type));
  DING_RETURN_IF_ERROR(Annotate(CheckParams(descriptor.check_params, config), "comm collector"));
  return CallFactory("comm collector", config.type,
                     [&] { return descriptor.create(config, session, store, std::move(factory)); });
}

}  // namespace ding
