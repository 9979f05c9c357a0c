#include "ding_worker/collector/comm/comm_collector_registry.h"

#include <utility>

#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<CommCollectorCreator>& CommCollectorRegistry() {
  static auto* const registry = new Registry<CommCollectorCreator>("comm collector");
  return *registry;
}

absl::StatusOr<std::unique_ptr<BaseCommCollector>> create_comm_collector(
    absl::string_view type, WorkerSession* session, Store* store, TaskCollectorFactory factory) {
  DING_ASSIGN_OR_RETURN(const CommCollectorCreator create, CommCollectorRegistry().Find(type));
  return create(session, store, std::move(factory));
}

}  // namespace ding
