// A collector worker of a parallel run: it takes tasks from the coordinator for as long as the run lasts, and makes a
// parallel collector for each task.
//
// Ownership: the session, the store and the factory must outlive it.
// Threads:   one thread calls Run(), which starts threads of its own and joins them; any thread may call Close().
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

// The collector of a task, with the env manager and the policies that it works with.
class TaskCollector {
 public:
  virtual ~TaskCollector() = default;
  virtual BaseParallelCollector* collector() = 0;
  // How its rows are cut into items, which the worker announces.
  virtual ItemSequences sequences() const { return {}; }
};

// Makes the collector of a task, which may take long. `link` outlives the result.
using TaskCollectorFactory = std::function<absl::StatusOr<std::unique_ptr<TaskCollector>>(
    const CollectorTask& task, CollectorLink* link)>;

class BaseCommCollector {
 public:
  virtual ~BaseCommCollector() = default;

  // Works until the run ends. Returns the coordinator's last message, which says how it ended.
  //   kCancelled   Close() was called
  //   other codes  the connection to the coordinator is lost; the message says why
  virtual absl::StatusOr<EndRun> Run() = 0;
  // Leaves the run: Run() returns.
  virtual void Close() = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_BASE_COMM_COLLECTOR_H_
