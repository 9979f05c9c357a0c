// The state of a parallel run, asked by somebody who is no worker of it.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_ASK_STATUS_H_
#define DING_WORKER_WORKER_ASK_STATUS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

// `name` is who asks, for people. `cancelled` is asked now and then while nobody listens there: whether
// the answer is still wanted. Errors of WorkerSession::Join(), Send() and Receive().
absl::StatusOr<RunStatus> AskStatus(
    const std::string& coordinator, const std::string& name, absl::Duration timeout,
    Transport* transport, const std::function<bool()>& cancelled = [] { return false; });
// What an operator asks for. An answer is one whatever its code says.
absl::StatusOr<OperatorReply> AskOperator(const std::string& coordinator, const std::string& name,
                                          const OperatorRequest& request, absl::Duration timeout,
                                          Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_ASK_STATUS_H_
