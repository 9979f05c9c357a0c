// A collector worker of a parallel run: takes tasks from the coordinator for as long as the run
// lasts, and makes a parallel collector for each.
//
// Ownership: the session, store and factory that it is made with outlive it.
// Threads:   Run() belongs to one thread, and has threads of its own, which it joins; Close() may be
//            called by any.
#ifndef DING_WORKER_COLLECTOR_COMM_BASE_COMM_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_COMM_BASE_COMM_COLLECTOR_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/collector_link.h"
#include "ding_worker/data/items.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// A task's collector, with everything that it works with.
class TaskCollector {
 public:
  virtual ~TaskCollector() = default;
  virtual BaseParallelCollector* collector() = 0;
  // How the rows that it collects are announced.
  virtual ItemSequences sequences() const { return {}; }
};

// Makes what a task needs; may take its time. `link` outlives what is made.
using TaskCollectorFactory = std::function<absl::StatusOr<std::unique_ptr<TaskCollector>>(
    const CollectorTask& task, CollectorLink* link)>;

class BaseCommCollector {
 public:
  virtual ~BaseCommCollector() = default;

  // Works until the run ends, and returns how.
  //   kCancelled  Close() was called
  //   else        the coordinator is lost: says why
  virtual absl::StatusOr<EndRun> Run() = 0;
  // Leaves the run.
  virtual void Close() = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_BASE_COMM_COLLECTOR_H_
