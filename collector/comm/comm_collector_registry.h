// Finds collector workers by the name in the config.
#ifndef DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_
#define DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

using CommCollectorCreator = std::function<absl::StatusOr<std::unique_ptr<BaseCommCollector>>(
    WorkerSession*, Store*, TaskCollectorFactory)>;
Registry<CommCollectorCreator>& CommCollectorRegistry();

// kNotFound lists the names that are linked. Session and store outlive what is created.
absl::StatusOr<std::unique_ptr<BaseCommCollector>> create_comm_collector(
    absl::string_view type, WorkerSession* session, Store* store, TaskCollectorFactory factory);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_
