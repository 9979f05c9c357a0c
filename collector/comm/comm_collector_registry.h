// Finds collector workers by the name in the config.
#ifndef DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_
#define DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/params.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// A type of collector worker (base/module.h). Its config is the type and system.comm_collector_params.
struct CommCollectorDescriptor : Module<std::unique_ptr<BaseCommCollector>, GivenParams,
                                        WorkerSession*, Store*, TaskCollectorFactory> {
  // The only scheme of a store that the type works with, as "redis"; empty: any store that
  // processes share.
  std::string store_scheme = {};
};
inline ModuleRegistry<CommCollectorDescriptor>& CommCollectorRegistry() {
  static auto* const registry = new ModuleRegistry<CommCollectorDescriptor>("comm collector");
  return *registry;
}

// Makes a worker of config.type, with the errors of ModuleRegistry::Create(). Session and store
// outlive what is created.
inline absl::StatusOr<std::unique_ptr<BaseCommCollector>> create_comm_collector(
    const GivenParams& config, WorkerSession* session, Store* store, TaskCollectorFactory factory) {
  return CommCollectorRegistry().Create(config, session, store, std::move(factory));
}

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_COMM_COLLECTOR_REGISTRY_H_
