// A collector worker of a parallel run: it takes tasks from the coordinator for as long as the run
// lasts, and makes a parallel collector for each task. Rows and policies go through a store,
// messages through a session. It does what DI-engine's FlaskFileSystemCollector does by HTTP and
// pickled files; its types are "grpc_fs" and "grpc_redis".
//
//     task ─► CreateCollector() ─► BaseParallelCollector::Run() ─► the result of the task
//                                    │ rows               ▲ newest policy
//                                    ▼                    │
//                         SendStepData(): a chunk   GetPolicyUpdateInfo()
//                         SendMetadata(): its items       ▲
//                                    └── CollectorSlave ──┘  messages: which keys to read
//
// While the store is full or not reachable, the collector pauses. It reports that, and tries again
// until it succeeds, so that no data are lost.
//
// A collector worker of your own inherits from this class and overrides the steps that it changes.
// A worker that keeps its data in another place overrides SendStepData(), DropStepData() and
// GetPolicyUpdateInfo(); the learners must find the rows there. docs/how_to/own_collector.md has an
// example.
//
// Ownership: session, store and factory must outlive it.
// Threads:   one thread calls Run(), which starts threads of its own and joins them; any thread may
//            call Close(). The steps are called on the thread of the task, one after the other.
// Errors:    an error or an exception of a step fails the task; the coordinator gives it to a
//            worker again.
#ifndef DING_WORKER_COLLECTOR_COMM_BASE_COMM_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_COMM_BASE_COMM_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/time_histogram.h"

namespace ding {

// The collector of a task, with the env manager and the policies that it works with.
class TaskCollector {
 public:
  virtual ~TaskCollector() = default;
  virtual BaseParallelCollector* collector() = 0;
  // How the collector's rows are cut into items, which the worker announces.
  virtual ItemSequences sequences() const { return {}; }
};

// Makes the collector of a task, which may take long. `link` outlives the result.
using TaskCollectorFactory = std::function<absl::StatusOr<std::unique_ptr<TaskCollector>>(
    const CollectorTask& task, CollectorLink* link)>;

// The worker is itself the link of its collectors.
class BaseCommCollector : public CollectorLink {
 public:
  // `retry` is the time between two attempts to write to a store that is full or not reachable;
  // above zero.
  BaseCommCollector(WorkerSession* session, Store* store, TaskCollectorFactory factory,
                    absl::Duration retry = absl::Milliseconds(200));

  // Works until the run ends. Returns the coordinator's last message, which says how it ended.
  //   kCancelled   Close() was called
  //   other codes  the connection to the coordinator is lost; the message says why
  virtual absl::StatusOr<EndRun> Run();
  // Leaves the run: Run() returns.
  virtual void Close();

  // How long it took to "collect" the rows of each chunk, to "push" it (into the store, and until
  // its announcement may be sent), and to "evaluate". Any thread may call it.
  StageTimes stage_times() const { return stages_.times(); }

 protected:
  // Makes the collector of a task, which sends and gets by `link`.
  virtual absl::StatusOr<std::unique_ptr<TaskCollector>> CreateCollector(const CollectorTask& task,
                                                                         CollectorLink* link);
  // Reads a version of a policy; by default from the store, at the key of `version`.
  //   kNotFound, kDataLoss, kFailedPrecondition, kInvalidArgument  it is gone or damaged: the task
  //                                                                waits for a newer version
  //   kUnavailable, kResourceExhausted                             called again
  virtual absl::StatusOr<PolicyUpdate> GetPolicyUpdateInfo(const PolicyVersion& version);
  // Puts rows where the learners find the chunk of this number.
  //   kUnavailable, kResourceExhausted  called again, with the same rows
  virtual absl::Status SendStepData(int64_t chunk, const SegmentBatch& data);
  // Deletes a chunk that was not announced. SendStepData() may have stored all of it, or nothing.
  virtual absl::Status DropStepData(int64_t chunk);
  // Announces `items` (EncodeItems()) of a chunk that SendStepData() has put, with the progress so
  // far. If `items` is empty, reports the progress only. Waits while the coordinator delays its
  // acknowledgements.
  virtual absl::Status SendMetadata(std::string items, const CollectorProgress& progress);

  CollectorSlave* slave() { return &slave_; }
  Store* store() const { return store_; }

 private:
  absl::Status SendData(const SegmentBatch& data, const CollectorProgress& progress) final;
  absl::StatusOr<std::optional<PolicyUpdate>> GetPolicyUpdate(int player, uint64_t version,
                                                              absl::Duration timeout) final;
  bool acts_at_random() const final { return slave_.acts_at_random(); }

  // Callbacks of the slave.
  void RunTask(const CollectorTask& task);
  void CloseTask();

  absl::StatusOr<CollectorFinishInfo> Collect(const CollectorTask& task);
  // Reports why no policy can be read, if that was not reported yet. An empty `reason` reports that
  // it can be read again.
  absl::Status ReportPolicyStall(const std::string& reason);
  // Sends the rows, and retries until this succeeds or the task is closed.
  absl::Status PutChunk(int64_t chunk, const SegmentBatch& data);

  WorkerSession* const session_;
  Store* const store_;
  const TaskCollectorFactory factory_;
  const absl::Duration retry_;
  CollectorSlave slave_;
  StageTimer stages_{{"collect", "push", "evaluate"}, Clock::Real()};
  // Only the task's thread uses these.
  int64_t collects_since_ = 0;  // by stages_
  ItemSequences sequences_;
  uint32_t chunks_ = 0;         // the number of stored chunks
  std::string read_bytes_;      // memory for reading, used again
  bool policy_stalls_ = false;  // whether the last ReportPolicyStall() had a reason
  std::string unreadable_;      // the key of the policy that could not be read last
  Deadline read_again_ = Deadline::After(absl::ZeroDuration());  // when that policy is read again

  Mutex mutex_;
  BaseParallelCollector* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_BASE_COMM_COLLECTOR_H_
