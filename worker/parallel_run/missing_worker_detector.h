// Finds processes that hang or are stopped: those that had joined a run and have been missing from
// its status for a while.
//
//   present:  Update({1, 2})   Update({2})  ...  Update({2}), the timeout later  ──► {1}
//
// Threads: thread-compatible.
//
// Example:
//   MissingWorkerDetector watch(kMissingTimeout, Clock::Real());
//   for (const int64_t pid : watch.Update(status.worker())) supervisor.Replace(pid);
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_MISSING_WORKER_DETECTOR_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_MISSING_WORKER_DETECTOR_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Time for a worker that lost its session; longer than it needs to join a restarted coordinator.
inline constexpr absl::Duration kMissingTimeout = absl::Seconds(3);

class MissingWorkerDetector {
 public:
  // A process that is missing for at least `timeout` has been away for too long.
  MissingWorkerDetector(absl::Duration timeout, const Clock* clock)
      : timeout_(timeout), clock_(clock) {}

  // Records which workers are present now. Returns the pids of those that have been away for too
  // long, each of them once.
  std::vector<int64_t> Update(const google::protobuf::RepeatedPtrField<WorkerStatus>& present);
  // Restarts the timeout of all workers, as when they are away for a known reason.
  void Forgive();

 private:
  const absl::Duration timeout_;
  const Clock* const clock_;
  std::map<int64_t, Timer> seen_;  // when they were last present, by pid
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_MISSING_WORKER_DETECTOR_H_
