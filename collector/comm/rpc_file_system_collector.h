// The collector worker that puts its data into a store and sends its messages through a session. It does what
// DI-engine's FlaskFileSystemCollector does by HTTP and pickled files. Its types are "grpc_fs" and
// "grpc_redis", which insists on a store in Redis.
//
//     task ──► thread: factory ──► BaseParallelCollector::Run()
//                                     │ SendData           ▲ GetPolicyUpdate
//                                     ▼                    │
//                  store: one chunk per hand-over      store: newest version
//                                     │                    ▲
//                                     └── CollectorSlave ──┘  messages: which keys to read
//
// While the store is full or not reachable, the collector pauses. It reports that, and tries again until it succeeds, so
// that no data are lost.
//
// Ownership, threads: as BaseCommCollector.
#ifndef DING_WORKER_COLLECTOR_COMM_RPC_FILE_SYSTEM_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_COMM_RPC_FILE_SYSTEM_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/deadline.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/collector_link.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class RpcFileSystemCollector : public BaseCommCollector, private CollectorLink {
 public:
  struct Options {
    // The time between two attempts to write to a store that is full or not reachable; above zero.
    absl::Duration store_retry = absl::Milliseconds(200);
  };

  RpcFileSystemCollector(const Options& options, WorkerSession* session, Store* store,
                         TaskCollectorFactory factory);

  absl::StatusOr<EndRun> Run() override;
  void Close() override;

 private:
  absl::Status SendData(const SegmentBatch& data, const CollectorProgress& progress) override;
  absl::StatusOr<std::optional<PolicyUpdate>> GetPolicyUpdate(int player, uint64_t version,
                                                              absl::Duration timeout) override;
  bool acts_at_random() const override { return slave_.acts_at_random(); }

  // Callbacks of the slave.
  void RunTask(const CollectorTask& task);
  void CloseTask();

  absl::StatusOr<CollectorFinishInfo> Collect(const CollectorTask& task);
  absl::Status PutAndAnnounce(int64_t chunk, const SegmentBatch& data,
                              const CollectorProgress& progress);
  // Reads a version of a policy from the store.
  absl::StatusOr<PolicyUpdate> ReadPolicy(const PolicyVersion& version);
  // Reports why no policy can be read, if that was not reported yet. An empty `reason` reports that it can be read again.
  absl::Status ReportPolicyStall(const std::string& reason);
  // Puts the chunk into the store, and repeats that until it succeeds or the task is closed.
  absl::Status PutChunk(int64_t chunk, const SegmentBatch& data);

  const Options options_;
  WorkerSession* const session_;
  Store* const store_;
  const TaskCollectorFactory factory_;
  CollectorSlave slave_;
  // Only the task's thread uses these.
  ItemSequences sequences_;
  uint32_t chunks_ = 0;         // the number of stored chunks
  std::string read_bytes_;      // memory for reading, used again
  bool policy_stalls_ = false;  // whether a ReportPolicyStall() with a reason was the last one
  std::string unreadable_;      // the key of the policy that could not be read last
  Deadline read_again_ = Deadline::After(absl::ZeroDuration());  // when that policy is read again

  Mutex mutex_;
  BaseParallelCollector* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COMM_RPC_FILE_SYSTEM_COLLECTOR_H_
