// Parts of a parallel run whose processes are threads of a test.
//
// Threads: as each class says; WorkerThread belongs to the thread that made it.
#ifndef DING_WORKER_WORKER_TESTING_IN_PROCESS_RUN_H_
#define DING_WORKER_WORKER_TESTING_IN_PROCESS_RUN_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

inline constexpr char kInProcessAddress[] = "run";

// Joins the run over `transport`, and works on a thread of its own until the run ends.
class WorkerThread {
 public:
  // `make_worker` returns a pointer to what has Run(), for a WorkerSession*.
  template <typename MakeWorker>
  WorkerThread(Hello::Role role, const std::string& name, Transport* transport,
               MakeWorker make_worker) {
    thread_ = std::thread([this, role, name, transport, make_worker] {
      Hello hello;
      hello.set_role(role);
      hello.set_name(name);
      hello.mutable_resources()->set_cpus(1);
      absl::StatusOr<std::unique_ptr<WorkerSession>> session =
          WorkerSession::Join(transport, kInProcessAddress, hello, {});
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

inline CommCoordinator::Options InProcessCommOptions() {
  CommCoordinator::Options options;
  options.address = kInProcessAddress;
  options.session.lease = absl::Minutes(1);
  options.welcome.set_lease_seconds(60);
  options.welcome.set_run("run-1");
  return options;
}

// Ends a run in the same way as the program does; the workers must leave within `timeout`.
inline absl::Status EndInProcessRun(Coordinator* coordinator, CommCoordinator* comm,
                                    absl::Duration timeout) {
  coordinator->RequestEnd("the test is over");
  if (!comm->WaitForWorkersToLeave(timeout)) {
    return absl::DeadlineExceededError("workers do not leave the run");
  }
  comm->Close("the test is over");
  return coordinator->Close("the test is over");
}

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_IN_PROCESS_RUN_H_
