// Makes several learners that train together act as one. To the coordinator it is a learner, and to
// the learners it is their coordinator.
//
//                    ┌──────────────────────┐ ◄── GroupReady, LearnerDemand, LearnerInfo ── learner, rank 0
//  coordinator ◄───► │  LearnerAggregator   │ ── FormGroup, LearnerData, BreakGroup ──►       ▲ all-reduce
//   (one session)    │  demands summed,     │                                                 ▼
//                    │  data split,         │ ◄────────────────────────────────────────► learner, rank 1
//                    │  infos merged        │
//                    └──────────────────────┘
//
// Parameters and gradients do not pass through it: rank 0 publishes policies to the store, and the
// learners exchange gradients among themselves (interaction/all_reduce/all_reduce.h).
//
//   gathering ─► running ──► a learner is lost, or comes ──► forming ─► running ...
//
// A generation is a fixed set of learners with ranks. It ends when a learner is lost, or reports
// that it lost another one. The remaining learners then report their iterations and form the next
// generation, with dense ranks. Rank 0 is the learner with the most iterations, and all continue
// from its state. A learner that comes later waits for the next generation. To admit it, the
// aggregator ends the present generation as soon as that has lasted for admit_period. If all
// learners that were in a generation are gone, the task fails, and the coordinator assigns it again
// from the last checkpoint.
//
// The logic is in group_core.h. This class connects it with the coordinator and the learners.
//
// Ownership: the session and the transport must outlive it. It owns its WorkerServer. It sets the
//            ready callback of the session.
// Threads:   one thread calls Run(), and does all work; any thread may call Close(), ended() and
//            status().
// Errors:    a learner is disconnected with the reason if its model differs from the others', or if
//            it sends a message that the coordinator would refuse; such a message is not passed on.
//            If the task fails on a learner, it fails for all, unless that learner was still
//            joining.
//
// Example: adapter/example_test.cc.
#ifndef DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_
#define DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/group_core.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

class LearnerAggregator : private WorkerHandler {
 public:
  struct Options {
    // The number of learners with which a task begins. After connect_timeout it begins with fewer.
    // At least 1.
    int learner_num = 1;
    absl::Duration connect_timeout = absl::Seconds(60);
    // How long the members have to notice that their generation is over. It must be above the
    // timeout of their all-reduce. The next generation begins without late members.
    absl::Duration form_timeout = absl::Seconds(45);
    // The least time between two generations if the second one begins because a learner has come.
    absl::Duration admit_period = absl::Seconds(10);
    // How long the learners may take at the end of the run to end their task and leave.
    absl::Duration leave_timeout = absl::Seconds(15);
    // The least time between two reports of the group's members to the coordinator. A report is
    // sent only if something has changed.
    absl::Duration report_period = absl::Seconds(1);
    // Where and how to listen. Create() sets check_hello itself. It takes the welcome message and
    // the lease, if one was announced, from the coordinator.
    WorkerServer::Options server;
    const Clock* clock = Clock::Real();
  };

  // Errors: as WorkerServer::Create(), and kInvalidArgument for options out of range.
  static absl::StatusOr<std::unique_ptr<LearnerAggregator>> Create(Options options,
                                                                   WorkerSession* coordinator,
                                                                   Transport* transport);
  ~LearnerAggregator() override;

  // The address to which learners connect.
  const std::string& address() const { return server_->address(); }

  // Works until the run ends, and returns the coordinator's last message. Before it returns, it
  // tells the learners that the run ends, and waits until they have left, at most leave_timeout.
  //   kCancelled  Close() was called
  //   others      the session with the coordinator ended, for this reason
  absl::StatusOr<EndRun> Run();
  // Leaves the run: Run() returns.
  void Close();
  // Whether the run is over. If so, do not start lost learners again.
  bool ended() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The status of the learners. The coordinator gets the same, for the status of the run.
  RunStatus status() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The queue of calls for the thread of Run(), and events of the session with the coordinator.
  class Inbox;

  LearnerAggregator(const Options& options, WorkerSession* coordinator,
                    std::unique_ptr<WorkerServer> server);

  // The server's threads call these. The thread of Run() does the work.
  void Admit(const Hello& hello, Admitted admitted) override;
  void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) override;
  void WorkerLost(uint32_t worker, const absl::Status& why) override;
  void Handle(uint32_t worker, WorkerMessage message, Done done) override;

  // Waits up to `timeout` for calls, and runs them.
  void TakeCalls(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  void Answer(uint32_t worker, const WorkerMessage& question) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToCoordinator(const WorkerMessage& message);

  const absl::Duration leave_timeout_;
  WorkerSession* const coordinator_;
  const std::shared_ptr<Inbox> inbox_;
  const std::unique_ptr<WorkerServer> server_;

  mutable Mutex mutex_;
  GroupCore core_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_LEARNER_AGGREGATOR_H_
