// Which processes hang, or are stopped: they had joined, and have been away for a while.
//
//   present:  Update({1, 2})   Update({2})  ...  Update({2}), the timeout later  ──► {1}
//
// Threads: thread-compatible.
//
// Example:
//   AwayWatch watch(kAwayTimeout, Clock::Real());
//   for (const int64_t pid : watch.Update(status.worker())) supervisor.Replace(pid);
#ifndef DING_WORKER_WORKER_AWAY_WATCH_H_
#define DING_WORKER_WORKER_AWAY_WATCH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// For a worker that lost its session; longer than it needs to join a coordinator that was started
// again.
inline constexpr absl::Duration kAwayTimeout = absl::Seconds(3);

class AwayWatch {
 public:
  // Away for at least `timeout` is away for too long.
  AwayWatch(absl::Duration timeout, const Clock* clock) : timeout_(timeout), clock_(clock) {}

  // Takes note of who is there now; the pids of those that have been away for too long, each once.
  std::vector<int64_t> Update(const google::protobuf::RepeatedPtrField<WorkerStatus>& present);
  // Something else has sent all of them away: they are given the whole time again.
  void Forgive();

 private:
  const absl::Duration timeout_;
  const Clock* const clock_;
  std::map<int64_t, Timer> seen_;  // when they were there last, by pid
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_AWAY_WATCH_H_
