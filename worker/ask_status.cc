#include "ding_worker/worker/ask_status.h"

#include <unistd.h>

#include <memory>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/worker_session.h"

namespace ding {

namespace {

absl::StatusOr<CoordinatorMessage> Ask(const std::string& coordinator, const std::string& name,
                                       const WorkerMessage& request, absl::Duration timeout,
                                       Transport* transport) {
  Hello hello;
  hello.set_role(Hello::OPERATOR);
  hello.set_name(name);
  hello.set_pid(getpid());
  WorkerSession::Options options;
  options.join_timeout = timeout;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerSession> session,
                        WorkerSession::Join(transport, coordinator, hello, options));
  DING_RETURN_IF_ERROR(session->Send(request, timeout));
  DING_ASSIGN_OR_RETURN(CoordinatorMessage answer, session->Receive(timeout));
  session->Close("done");
  return answer;
}

}  // namespace

absl::StatusOr<RunStatus> AskStatus(const std::string& coordinator, const std::string& name,
                                    absl::Duration timeout, Transport* transport) {
  WorkerMessage request;
  request.mutable_status_request();
  DING_ASSIGN_OR_RETURN(CoordinatorMessage answer,
                        Ask(coordinator, name, request, timeout, transport));
  if (!answer.has_run_status()) {
    return absl::InternalError("the coordinator answers with another message than the status");
  }
  return *std::move(answer.mutable_run_status());
}

absl::StatusOr<OperatorReply> AskOperator(const std::string& coordinator, const std::string& name,
                                          const OperatorRequest& request, absl::Duration timeout,
                                          Transport* transport) {
  WorkerMessage message;
  *message.mutable_operator_request() = request;
  DING_ASSIGN_OR_RETURN(CoordinatorMessage answer,
                        Ask(coordinator, name, message, timeout, transport));
  if (!answer.has_operator_reply()) {
    return absl::InternalError("the coordinator answers with another message than a reply");
  }
  return *std::move(answer.mutable_operator_reply());
}

}  // namespace ding
