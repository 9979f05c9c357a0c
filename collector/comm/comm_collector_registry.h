// Finds collector workers by the name in the config.
#ifndef DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_
#define DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// `config` gives the type and system.comm_collector_params.
using CommCollectorCreator = std::function<absl::StatusOr<std::unique_ptr<BaseCommCollector>>(
    const GivenParams& config, WorkerSession*, Store*, TaskCollectorFactory)>;

// A type of collector worker.
struct CommCollectorDescriptor {
  // Checks the parameters before a run begins and before `create` is called; if it is empty, only
  // `create` decides (base/params.h).
  ParamsCheck check_params;
  CommCollectorCreator create;
  // The only scheme of a store that the type works with, as "redis"; empty: any store that
  // processes share.
  std::string store_scheme;
};
Registry<CommCollectorDescriptor>& CommCollectorRegistry();

// Makes a worker of config.type. Session and store outlive what is created.
//   kNotFound         lists the names that are linked
//   kInvalidArgument  says why the type refuses the parameters
absl::StatusOr<std::unique_ptr<BaseCommCollector>> create_comm_collector(
    const GivenParams& config, WorkerSession* session, Store* store, TaskCollectorFactory factory);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_
