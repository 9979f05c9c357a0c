// A collector worker without envs and policies, for tests of a coordinator: for each task it stores
// and announces 20 chunks of one row, and then reports that the task is done. It is a small example
// of a worker made of a slave alone.
//
// Ownership, threads: as BaseCommCollector.
#ifndef DING_WORKER_COLLECTOR_TESTING_NAIVE_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_TESTING_NAIVE_COLLECTOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class NaiveCollector {
 public:
  static constexpr int kChunksPerTask = 20;

  NaiveCollector(WorkerSession* session, Store* store);

  absl::StatusOr<EndRun> Run();
  void Close();

 private:
  void RunTask();
  absl::Status Collect();

  WorkerSession* const session_;
  Store* const store_;
  CollectorSlave slave_;
  uint32_t chunks_ = 0;  // the number of stored chunks; only the task's thread uses it
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_TESTING_NAIVE_COLLECTOR_H_
