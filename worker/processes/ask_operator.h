// Asks the coordinator of a parallel run for its status or sends it a command, without joining as a
// worker (`ctl`, the page of tools/watch), and finds workers that are missing from the status.
//
// Threads: the functions are thread-safe, MissingWorkerDetector is thread-compatible.
#ifndef DING_WORKER_WORKER_PROCESSES_ASK_OPERATOR_H_
#define DING_WORKER_WORKER_PROCESSES_ASK_OPERATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/worker/program/run_monitor.h"

namespace ding {

// Returns where processes of this machine connect to a server that listens on `address`: one cannot
// connect to "0.0.0.0:7235", and no certificate names it.
inline std::string LocalAddress(const std::string& address) {
  if (absl::StartsWith(address, "0.0.0.0:")) return absl::StrCat("127.0.0.1", address.substr(7));
  if (absl::StartsWith(address, "[::]:")) return absl::StrCat("[::1]", address.substr(4));
  return address;
}

// Returns the status of the run. `name` identifies the asker to people. While nobody listens at
// `coordinator`, `cancelled` is called now and then: true means that the answer is not wanted any
// more. Returns the errors of WorkerSession::Join(), Send() and Receive().
absl::StatusOr<RunStatus> AskStatus(
    const std::string& coordinator, const std::string& name, absl::Duration timeout,
    Transport* transport, const std::function<bool()>& cancelled = [] { return false; });
// Sends an operator's request and returns the reply; the error of a reply if it is refused. If a
// run that is asked to stop ends before it replies, the reply says so. `cancelled`: as above.
absl::StatusOr<OperatorReply> AskOperator(
    const std::string& coordinator, const std::string& name, const OperatorRequest& request,
    absl::Duration timeout, Transport* transport,
    const std::function<bool()>& cancelled = [] { return false; });
// The request that a command stands for: {"status"}, {"stop"}, {"inspect", NAME}, {"grow", N},
// {"shrink", N} or {"drain", NAME}.
//   kInvalidArgument  it is none of these
absl::StatusOr<OperatorRequest> ParseOperatorCommand(const std::vector<std::string>& words);

// Returns a function that asks as an operator, for a page. It gives up after 3 s, or after 0.2 s if
// nobody listens. `transport` must outlive it.
AskRun AskerOf(Transport* transport);

// Time for a worker that lost its session; longer than it needs to join a restarted coordinator.
inline constexpr absl::Duration kMissingTimeout = absl::Seconds(3);

// Finds processes that hang or are stopped: those that had joined a run and have been missing from
// its status for a while.
//
//   present:  Update({1, 2})   Update({2})  ...  Update({2}), the timeout later  ──► {1}
//
// Example:
//   MissingWorkerDetector watch(kMissingTimeout, Clock::Real());
//   for (const int64_t pid : watch.Update(status.worker())) supervisor.Replace(pid);
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

#endif  // DING_WORKER_WORKER_PROCESSES_ASK_OPERATOR_H_
