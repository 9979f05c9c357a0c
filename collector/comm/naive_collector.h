// A collector worker without envs and policies, to try out a coordinator: for each task it stores and announces 20
// chunks of one row, and then reports that the task is done.
//
// Ownership, threads: as BaseCommCollector.
#ifndef DING_WORKER_COLLECTOR_COMM_NAIVE_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_COMM_NAIVE_COLLECTOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class NaiveCollector : public BaseCommCollector {
 public:
  static constexpr int kChunksPerTask = 20;

  NaiveCollector(WorkerSession* session, Store* store);

  absl::StatusOr<EndRun> Run() override;
  void Close() override;

 private:
  void RunTask();
  absl::Status Collect();

  WorkerSession* const session_;
  Store* const store_;
  CollectorSlave slave_;
  uint32_t chunks_ = 0;  // the number of stored chunks; only the task's thread uses it
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_NAIVE_COLLECTOR_H_
