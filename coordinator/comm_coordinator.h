// The connection of a coordinator to its workers: a WorkerServer whose handler is the Coordinator.
// The name comes from DI-engine.
#ifndef DING_WORKER_COORDINATOR_COMM_COORDINATOR_H_
#define DING_WORKER_COORDINATOR_COMM_COORDINATOR_H_

#include "ding_worker/interaction/control/worker_server.h"

namespace ding {

using CommCoordinator = WorkerServer;

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMM_COORDINATOR_H_
