// Runs whole parallel runs between the threads of one process, for tests: the coordinator, its end
// of the connections, and workers of the config.
//
// Threads: thread-compatible.
//
// Example:
//   InProcessTransport transport;
//   const InProcessRun run = RunInProcess(config, deps, store.get(), &transport, &transport);
//   EXPECT_THAT(run.end, IsOk());
#ifndef DING_WORKER_WORKER_TESTING_IN_PROCESS_RUN_H_
#define DING_WORKER_WORKER_TESTING_IN_PROCESS_RUN_H_

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// The address of the coordinator.
inline constexpr char kInProcessAddress[] = "run";
// Only a broken run takes that long.
inline constexpr absl::Duration kInProcessPatience = absl::Minutes(4);

// Joins the run over `transport`, and works on a thread of its own until the run ends.
class WorkerThread {
 public:
  template <typename MakeWorker>
  WorkerThread(Hello::Role role, const std::string& name, Transport* transport,
               MakeWorker make_worker, const std::string& address = kInProcessAddress) {
    thread_ = std::thread([this, role, name, transport, make_worker, address] {
      Hello hello;
      hello.set_role(role);
      hello.set_name(name);
      hello.mutable_resources()->set_cpus(1);
      absl::StatusOr<std::unique_ptr<WorkerSession>> session =
          WorkerSession::Join(transport, address, hello, {});
      if (!session.ok()) {
        end_ = session.status();
        return;
      }
      end_ = make_worker(session->get())->Run().status();
      (*session)->Close("done");
    });
  }
  ~WorkerThread() { Join().IgnoreError(); }

  absl::Status Join() {
    if (thread_.joinable()) thread_.join();
    return end_;
  }

 private:
  std::thread thread_;
  absl::Status end_;
};

// Options for a coordinator of such workers.
CommCoordinator::Options InProcessCommOptions();

// Ends a run in the same way as the program does.
absl::Status EndInProcessRun(Coordinator* coordinator, CommCoordinator* comm);

// How a run has ended.
struct InProcessRun {
  absl::Status end;        // of the coordinator
  absl::Status workers;    // the first error of a worker; OK: all have left in order
  RunStatus before_close;  // with the buffers
  RunStatus status;        // after the end
  Coordinator::Counters counters;
};
// Runs it to its end with some collectors and a learner, which join over `workers`.
InProcessRun RunInProcess(const ExperimentConfig& config, const ComponentDeps& deps, Store* store,
                          InProcessTransport* transport, Transport* workers, int collectors = 2);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_IN_PROCESS_RUN_H_
