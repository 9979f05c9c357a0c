// A comm collector and a comm learner: "counting" are those of ding_worker, and count the tasks of their processes.
//   system { comm_collector_type: "counting" comm_learner_type: "counting" }
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ding_worker/base/log.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"

namespace own {
namespace {

// Calls `make` and logs how often it was called.
template <typename Factory>
Factory Counted(const std::string& what, Factory make) {
  const auto tasks = std::make_shared<int64_t>(0);  // a worker has one task at a time
  return [=](const auto& task, auto* peer) {
    DING_LOG(INFO) << "counting: " << what << " task " << ++*tasks;
    return make(task, peer);
  };
}

ding::CommCollectorDescriptor Collector() {
  ding::CommCollectorDescriptor descriptor;
  descriptor.check_params = ding::TakesNoParams;
  descriptor.create = [](const ding::GivenParams&, ding::WorkerSession* session, ding::Store* store,
                         ding::TaskCollectorFactory factory) {
    return ding::create_comm_collector(ding::GivenParams("grpc_fs", nullptr), session, store,
                                       Counted("collecting", std::move(factory)));
  };
  return descriptor;
}

ding::CommLearnerDescriptor Learner() {
  ding::CommLearnerDescriptor descriptor;
  descriptor.check_params = ding::TakesNoParams;
  descriptor.create = [](const ding::GivenParams&, const ding::CommLearnerOptions& options,
                         ding::WorkerSession* session, ding::Store* store,
                         ding::TaskLearnerFactory factory) {
    return ding::create_comm_learner(ding::GivenParams("grpc_fs", nullptr), options, session, store,
                                     Counted("learning", std::move(factory)));
  };
  return descriptor;
}

DING_REGISTER(ding::CommCollectorRegistry(), "counting", Collector(),
              "grpc_fs that counts its tasks");
DING_REGISTER(ding::CommLearnerRegistry(), "counting", Learner(), "grpc_fs that counts its tasks");

}  // namespace
}  // namespace own
