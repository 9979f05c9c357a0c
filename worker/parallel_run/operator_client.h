// Asks the coordinator of a parallel run for its status, or sends it a command, without joining as
// a worker.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_OPERATOR_CLIENT_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_OPERATOR_CLIENT_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// Returns the status of the run. `name` identifies the asker to people. While nobody listens at
// `coordinator`, `cancelled` is called now and then: true means that the answer is not wanted any
// more. Returns the errors of WorkerSession::Join(), Send() and Receive().
absl::StatusOr<RunStatus> AskStatus(
    const std::string& coordinator, const std::string& name, absl::Duration timeout,
    Transport* transport, const std::function<bool()>& cancelled = [] { return false; });
// Sends an operator's request and returns the reply. A reply is not an error, whatever its code
// says. If a run that is asked to stop ends before it replies, the reply says so.
absl::StatusOr<OperatorReply> AskOperator(const std::string& coordinator, const std::string& name,
                                          const OperatorRequest& request, absl::Duration timeout,
                                          Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_OPERATOR_CLIENT_H_
