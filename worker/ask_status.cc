#include "ding_worker/worker/ask_status.h"

#include <unistd.h>

#include <memory>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/worker_session.h"

namespace ding {

absl::StatusOr<RunStatus> AskStatus(const std::string& coordinator, const std::string& name,
                                    absl::Duration timeout, Transport* transport) {
  Hello hello;
  hello.set_role(Hello::OPERATOR);
  hello.set_name(name);
  hello.set_pid(getpid());
  WorkerSession::Options options;
  options.join_timeout = timeout;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerSession> session,
                        WorkerSession::Join(transport, coordinator, hello, options));
  WorkerMessage request;
  request.mutable_status_request();
  DING_RETURN_IF_ERROR(session->Send(request, timeout));
  DING_ASSIGN_OR_RETURN(CoordinatorMessage answer, session->Receive(timeout));
  session->Close("done");
  if (!answer.has_run_status()) {
    return absl::InternalError("the coordinator answers with another message than the status");
  }
  return *std::move(answer.mutable_run_status());
}

}  // namespace ding
