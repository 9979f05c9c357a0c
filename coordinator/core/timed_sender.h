// Sends the coordinator's messages, and measures how long what workers ask for takes
// (Coordinator::stage_times()).
//
// Threads: the coordinator's thread calls it; any thread may call stage_times().
#ifndef DING_WORKER_COORDINATOR_CORE_TIMED_SENDER_H_
#define DING_WORKER_COORDINATOR_CORE_TIMED_SENDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/time_histogram.h"

namespace ding {
namespace internal_coordinator {

class TimedSender : public WorkerSender {
 public:
  // Both must outlive it.
  TimedSender(WorkerSender* sender, const Clock* clock);

  // For a message that came at `came_nanos`, before it is applied. Returns what to call when it is
  // done. `from` is null if there is no such worker.
  std::function<void()> Measure(const WorkerMessage& message, const Worker* from,
                                int64_t came_nanos);
  void ForgetWorker(uint32_t worker) { asked_.erase(worker); }
  StageTimes stage_times() const { return stages_.times(); }

  void Send(uint32_t worker, const CoordinatorMessage& message) override;
  std::optional<absl::Duration> LeaseLeft(uint32_t worker) override {
    return sender_->LeaseLeft(worker);
  }

 private:
  WorkerSender* const sender_;
  StageTimer stages_;
  // The demands without an answer: their sequence numbers, and when they came.
  std::map<uint32_t, std::deque<std::pair<uint64_t, int64_t>>> asked_;
};

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_CORE_TIMED_SENDER_H_
